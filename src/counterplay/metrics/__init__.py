"""Ranks, metrics, intervals, comparisons and bands: numpy in, numpy out."""
