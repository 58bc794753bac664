"""Worlds: populations whose relevance and exposure are known, their logs and online tests."""
