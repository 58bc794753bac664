"""Learn and evaluate recommenders from logs that do not say what users were shown."""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from counterplay.data.datasets import read_dataset as read_dataset
    from counterplay.data.directory import load as load
    from counterplay.data.directory import load_split as load_split
    from counterplay.data.directory import save as save
    from counterplay.data.features import FeatureTable as FeatureTable
    from counterplay.data.filters import filter_by_events as filter_by_events
    from counterplay.data.filters import k_core as k_core
    from counterplay.data.histories import Histories as Histories
    from counterplay.data.interactions import Interactions as Interactions
    from counterplay.data.negatives import NegativeSampler as NegativeSampler
    from counterplay.data.profile import profile as profile
    from counterplay.data.readers import read as read
    from counterplay.data.splits import Split as Split
    from counterplay.data.splits import leave_last_two_out as leave_last_two_out
    from counterplay.data.splits import split_at_random as split_at_random
    from counterplay.data.splits import split_by_time as split_by_time
    from counterplay.data.vocabulary import Vocabulary as Vocabulary
    from counterplay.errors import CheckpointError as CheckpointError
    from counterplay.errors import ConfigError as ConfigError
    from counterplay.errors import CounterplayError as CounterplayError
    from counterplay.errors import CounterplayWarning as CounterplayWarning
    from counterplay.errors import DataError as DataError
    from counterplay.errors import DivergedError as DivergedError
    from counterplay.errors import NotFittedError as NotFittedError
    from counterplay.evaluation.score_files import read_scores as read_scores
    from counterplay.evaluation.stage import Evaluation as Evaluation
    from counterplay.learning.config import Game as Game
    from counterplay.learning.config import Training as Training
    from counterplay.learning.config import Weighted as Weighted
    from counterplay.learning.methods.acl import acl as acl
    from counterplay.learning.methods.erm import erm as erm
    from counterplay.learning.methods.opponent import opponent as opponent
    from counterplay.learning.methods.ps import ps as ps
    from counterplay.learning.records import Epoch as Epoch
    from counterplay.learning.records import Fit as Fit
    from counterplay.metrics.certificate import certificates as certificates
    from counterplay.metrics.comparison import compare as compare
    from counterplay.metrics.doubly_robust import doubly_robust as doubly_robust
    from counterplay.metrics.estimates import Estimate as Estimate
    from counterplay.metrics.estimates import estimates as estimates
    from counterplay.metrics.estimates import popularity_propensities as popularity_propensities
    from counterplay.metrics.estimates import weights_of as weights_of
    from counterplay.metrics.intervals import bootstrap as bootstrap
    from counterplay.metrics.intervals import interval as interval
    from counterplay.metrics.measures import coverage as coverage
    from counterplay.metrics.measures import gini_of_lists as gini_of_lists
    from counterplay.metrics.measures import mean_popularity as mean_popularity
    from counterplay.metrics.measures import ranking_metrics as ranking_metrics
    from counterplay.metrics.measures import rating_errors as rating_errors
    from counterplay.metrics.policy_values import policy_values as policy_values
    from counterplay.metrics.ranks import Ranks as Ranks
    from counterplay.metrics.ranks import full_ranks as full_ranks
    from counterplay.metrics.ranks import sampled_candidates as sampled_candidates
    from counterplay.metrics.ranks import sampled_ranks as sampled_ranks
    from counterplay.metrics.recommendations import top_k as top_k
    from counterplay.metrics.recommendations import write_top_k as write_top_k
    from counterplay.metrics.scoring import ModelScores as ModelScores
    from counterplay.metrics.scoring import Scores as Scores
    from counterplay.metrics.scoring import TableScores as TableScores
    from counterplay.metrics.sensitivity import bands as bands
    from counterplay.metrics.sensitivity import smallest_flip as smallest_flip
    from counterplay.models.link import Link as Link
    from counterplay.models.registry import build as build
    from counterplay.models.scorer import History as History
    from counterplay.models.scorer import Scorer as Scorer
    from counterplay.report.page import write_report as write_report
    from counterplay.runs.candidates import compare_runs as compare_runs
    from counterplay.runs.candidates import evaluate_run as evaluate_run
    from counterplay.runs.candidates import evaluate_scores as evaluate_scores
    from counterplay.runs.config import RunConfig as RunConfig
    from counterplay.runs.online import online_runs as online_runs
    from counterplay.runs.training import load_run as load_run
    from counterplay.runs.training import read_record as read_record
    from counterplay.runs.training import train_run as train_run
    from counterplay.seeding import Streams as Streams
    from counterplay.serving.export import export_run as export_run
    from counterplay.serving.recommend import recommend_run as recommend_run
    from counterplay.simulation.checks import Finding as Finding
    from counterplay.simulation.checks import check_world as check_world
    from counterplay.simulation.factors import Factors as Factors
    from counterplay.simulation.feedback import factors_of as factors_of
    from counterplay.simulation.feedback import feedback_loop as feedback_loop
    from counterplay.simulation.feedback import model_policy as model_policy
    from counterplay.simulation.online import OnlineTest as OnlineTest
    from counterplay.simulation.online import online_test as online_test
    from counterplay.simulation.policies import Exponential as Exponential
    from counterplay.simulation.policies import Mixture as Mixture
    from counterplay.simulation.policies import Scored as Scored
    from counterplay.simulation.sequential import smallest_effect as smallest_effect
    from counterplay.simulation.sequential import users_needed as users_needed
    from counterplay.simulation.store import load_world as load_world
    from counterplay.simulation.store import save_world as save_world
    from counterplay.simulation.synthetic import Synthetic as Synthetic
    from counterplay.simulation.two_stage import TwoStage as TwoStage
    from counterplay.simulation.values import true_values as true_values
    from counterplay.simulation.world import World as World
    from counterplay.simulation.writing import write_world as write_world
    from counterplay.study.config import StudyConfig as StudyConfig
    from counterplay.study.study import Study as Study
    from counterplay.study.study import load_study as load_study
    from counterplay.study.study import run_study as run_study
    from counterplay.tuning.space import Tuning as Tuning
    from counterplay.tuning.tuning import tune_methods as tune_methods


__version__ = "0.1.0"

_HOMES = {
    "counterplay.data.datasets": ("read_dataset",),
    "counterplay.data.features": ("FeatureTable",),
    "counterplay.data.filters": ("filter_by_events", "k_core"),
    "counterplay.data.histories": ("Histories",),
    "counterplay.data.interactions": ("Interactions",),
    "counterplay.data.negatives": ("NegativeSampler",),
    "counterplay.data.profile": ("profile",),
    "counterplay.data.readers": ("read",),
    "counterplay.data.splits": (
        "Split",
        "leave_last_two_out",
        "split_at_random",
        "split_by_time",
    ),
    "counterplay.data.directory": ("load", "load_split", "save"),
    "counterplay.data.vocabulary": ("Vocabulary",),
    "counterplay.errors": (
        "CheckpointError",
        "ConfigError",
        "CounterplayError",
        "CounterplayWarning",
        "DataError",
        "DivergedError",
        "NotFittedError",
    ),
    "counterplay.metrics.certificate": ("certificates",),
    "counterplay.metrics.comparison": ("compare",),
    "counterplay.metrics.doubly_robust": ("doubly_robust",),
    "counterplay.metrics.estimates": (
        "Estimate",
        "estimates",
        "popularity_propensities",
        "weights_of",
    ),
    "counterplay.metrics.intervals": ("bootstrap", "interval"),
    "counterplay.metrics.measures": (
        "coverage",
        "gini_of_lists",
        "mean_popularity",
        "ranking_metrics",
        "rating_errors",
    ),
    "counterplay.metrics.policy_values": ("policy_values",),
    "counterplay.metrics.ranks": (
        "Ranks",
        "full_ranks",
        "sampled_candidates",
        "sampled_ranks",
    ),
    "counterplay.metrics.recommendations": ("top_k", "write_top_k"),
    "counterplay.metrics.scoring": ("ModelScores", "Scores", "TableScores"),
    "counterplay.metrics.sensitivity": ("bands", "smallest_flip"),
    "counterplay.evaluation.score_files": ("read_scores",),
    "counterplay.runs.config": ("RunConfig",),
    "counterplay.runs.candidates": ("compare_runs", "evaluate_run", "evaluate_scores"),
    "counterplay.serving.export": ("export_run",),
    "counterplay.runs.training": ("load_run", "read_record", "train_run"),
    "counterplay.tuning.space": ("Tuning",),
    "counterplay.serving.recommend": ("recommend_run",),
    "counterplay.evaluation.stage": ("Evaluation",),
    "counterplay.study.study": ("Study", "load_study", "run_study"),
    "counterplay.study.config": ("StudyConfig",),
    "counterplay.tuning.tuning": ("tune_methods",),
    "counterplay.runs.online": ("online_runs",),
    "counterplay.learning.config": ("Game", "Training", "Weighted"),
    "counterplay.learning.methods.erm": ("erm",),
    "counterplay.learning.methods.acl": ("acl",),
    "counterplay.learning.methods.opponent": ("opponent",),
    "counterplay.learning.methods.ps": ("ps",),
    "counterplay.learning.records": ("Epoch", "Fit"),
    "counterplay.models.link": ("Link",),
    "counterplay.models.registry": ("build",),
    "counterplay.models.scorer": ("History", "Scorer"),
    "counterplay.report.page": ("write_report",),
    "counterplay.seeding": ("Streams",),
    "counterplay.simulation.checks": ("Finding", "check_world"),
    "counterplay.simulation.factors": ("Factors",),
    "counterplay.simulation.feedback": ("factors_of", "feedback_loop", "model_policy"),
    "counterplay.simulation.online": ("OnlineTest", "online_test"),
    "counterplay.simulation.policies": ("Exponential", "Mixture", "Scored"),
    "counterplay.simulation.sequential": ("smallest_effect", "users_needed"),
    "counterplay.simulation.store": ("load_world", "save_world"),
    "counterplay.simulation.synthetic": ("Synthetic",),
    "counterplay.simulation.two_stage": ("TwoStage",),
    "counterplay.simulation.values": ("true_values",),
    "counterplay.simulation.world": ("World",),
    "counterplay.simulation.writing": ("write_world",),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}

__all__ = sorted(["__version__", *_HOME_OF])


def __getattr__(name: str) -> object:
    """Import a public name when it is first used: `import counterplay` itself costs nothing."""
    if name not in _HOME_OF:
        raise AttributeError(f"module 'counterplay' has no attribute {name!r}")
    value = getattr(import_module(_HOME_OF[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
