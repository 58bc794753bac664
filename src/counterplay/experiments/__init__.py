"""Experiments: configurations of runs, and what came of them."""
