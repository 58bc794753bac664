from .config import StudyConfig as StudyConfig
from .finished import Study as Study
from .finished import load_study as load_study
from .shipping import refit as refit
