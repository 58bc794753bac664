from .estimators import ESTIMATORS as ESTIMATORS
from .estimators import Estimator as Estimator
from .records import EvaluationRecord as EvaluationRecord
from .score_files import read_scores as read_scores
from .settings import DialSettings as DialSettings
from .settings import Evaluation as Evaluation
from .settings import OpponentSettings as OpponentSettings
