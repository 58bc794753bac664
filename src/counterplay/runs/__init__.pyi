from .config import RunConfig as RunConfig
from .online import online_runs as online_runs
from .record import RunRecord as RunRecord
from .training import load_run as load_run
from .training import read_record as read_record
