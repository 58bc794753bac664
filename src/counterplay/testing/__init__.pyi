from .judges import EstimatorContract as EstimatorContract
from .judges import WorldContract as WorldContract
from .learners import MethodContract as MethodContract
from .learners import ScorerContract as ScorerContract
