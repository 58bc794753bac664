"""The public names: edit here, and nowhere else."""

from . import data as data
from . import evaluation as evaluation
from . import learning as learning
from . import metrics as metrics
from . import models as models
from . import report as report
from . import runs as runs
from . import serving as serving
from . import simulation as simulation
from . import study as study
from . import testing as testing
from . import tuning as tuning
from .data.interactions import Interactions as Interactions
from .data.preparation import prepare as prepare
from .data.readers import read as read
from .data.splits import Split as Split
from .errors import CheckpointError as CheckpointError
from .errors import ConfigError as ConfigError
from .errors import CounterplayError as CounterplayError
from .errors import CounterplayWarning as CounterplayWarning
from .errors import DataError as DataError
from .errors import DivergedError as DivergedError
from .errors import NotFittedError as NotFittedError
from .models.scorer import Scorer as Scorer
from .report.page import write_report as write_report
from .runs.candidates import compare as compare
from .runs.candidates import evaluate as evaluate
from .runs.training import train as train
from .seeding import Streams as Streams
from .study.shipping import recommend as recommend
from .study.study import run as run
from .tuning.tuning import tune as tune

__version__: str
