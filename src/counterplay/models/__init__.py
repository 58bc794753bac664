"""Scorers: what can be the candidate or the exposure model."""
