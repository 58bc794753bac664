"""Lists of jobs, as `counterplay.data.jobs` has them."""

from counterplay.data.jobs import Executor as Executor
from counterplay.data.jobs import Job as Job
from counterplay.data.jobs import Result as Result
from counterplay.data.jobs import Results as Results
from counterplay.data.jobs import Work as Work
from counterplay.data.jobs import in_processes as in_processes
from counterplay.data.jobs import in_turn as in_turn
from counterplay.data.jobs import n_cores as n_cores
from counterplay.data.jobs import on_ray as on_ray
from counterplay.data.jobs import run_jobs as run_jobs
