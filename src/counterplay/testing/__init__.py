"""Contracts for scorers, methods, estimators and worlds of one's own, checked by inheriting.

Each contract is a class of tests for pytest. A subclass named `Test…` says what is to be tested:

    from counterplay.testing import ScorerContract

    class TestMyModel(ScorerContract):
        def make(self, log, generator):
            return MyModel(log.n_users, log.n_items, generator=generator)

The library's own models, methods, estimators and worlds are tested by the same classes.
"""

from counterplay.testing.judges import EstimatorContract as EstimatorContract
from counterplay.testing.judges import WorldContract as WorldContract
from counterplay.testing.learners import MethodContract as MethodContract
from counterplay.testing.learners import ScorerContract as ScorerContract
