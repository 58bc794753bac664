"""Learn and evaluate recommenders from logs that do not say what users were shown."""

import lazy_loader

__version__ = "0.1.0"
# Names are listed in __init__.pyi, here and in each room, and imported when they are first used.
__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
__all__ = sorted([*__all__, "__version__"])
