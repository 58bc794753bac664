"""Candidates on held-out rows, weighted by what is assumed of exposure."""
