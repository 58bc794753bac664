from .config import RunConfig as RunConfig
from .online import online_runs as online_runs
from .policies import compare_policies as compare_policies
from .policies import value_policy as value_policy
from .record import RunRecord as RunRecord
from .training import load_run as load_run
from .training import read_record as read_record
from .workers import joined as joined
