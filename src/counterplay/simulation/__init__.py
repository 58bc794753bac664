"""Worlds: populations whose relevance and exposure are known, their logs and online tests."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
