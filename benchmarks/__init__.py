"""Benchmarks against peers and limits; not part of the test run."""
