"""One training on disk: configuration, defaults, training, record, and what is loaded of it."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
