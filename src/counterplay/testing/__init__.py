"""Contracts for scorers, methods, estimators and worlds of one's own, checked by inheriting.

Each contract is a class of tests for pytest. A subclass named `Test…` says what is to be tested:

    from counterplay.testing import ScorerContract

    class TestMyModel(ScorerContract):
        def make(self, log, generator):
            return MyModel(log.n_users, log.n_items, generator=generator)

The library's own models, methods, estimators and worlds are tested by the same classes.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
