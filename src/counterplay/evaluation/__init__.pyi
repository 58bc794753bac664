from .estimators import ESTIMATORS as ESTIMATORS
from .estimators import Estimator as Estimator
from .propensities import OpponentSettings as OpponentSettings
from .records import EvaluationRecord as EvaluationRecord
from .score_files import read_scores as read_scores
from .stage import Evaluation as Evaluation
from .worst_case import DialSettings as DialSettings
