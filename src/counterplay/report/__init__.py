"""Records as one self-contained HTML page, and its charts as figures."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
