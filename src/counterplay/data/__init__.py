"""Logs: reading, checking, storing, filtering, splitting and sampling them."""
