from .config import StudyConfig as StudyConfig
from .records import Study as Study
from .records import load_study as load_study
from .shipping import refit as refit
