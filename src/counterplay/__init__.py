"""Learn and evaluate recommenders from logs that do not say what users were shown."""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from counterplay.data.datasets import read_dataset as read_dataset
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
    from counterplay.data.store import load as load
    from counterplay.data.store import load_split as load_split
    from counterplay.data.store import save as save
    from counterplay.data.vocabulary import Vocabulary as Vocabulary
    from counterplay.errors import CheckpointError as CheckpointError
    from counterplay.errors import ConfigError as ConfigError
    from counterplay.errors import CounterplayError as CounterplayError
    from counterplay.errors import CounterplayWarning as CounterplayWarning
    from counterplay.errors import DataError as DataError
    from counterplay.errors import DivergedError as DivergedError
    from counterplay.errors import NotFittedError as NotFittedError
    from counterplay.evaluation.certificate import certificate as certificate
    from counterplay.evaluation.certificate import certificates as certificates
    from counterplay.evaluation.comparison import compare as compare
    from counterplay.evaluation.comparison import paired_difference as paired_difference
    from counterplay.evaluation.doubly_robust import doubly_robust as doubly_robust
    from counterplay.evaluation.estimators import Estimate as Estimate
    from counterplay.evaluation.estimators import estimates as estimates
    from counterplay.evaluation.estimators import popularity_propensities as popularity_propensities
    from counterplay.evaluation.estimators import weights_of as weights_of
    from counterplay.evaluation.intervals import bootstrap as bootstrap
    from counterplay.evaluation.intervals import interval as interval
    from counterplay.evaluation.metrics import coverage as coverage
    from counterplay.evaluation.metrics import gini as gini
    from counterplay.evaluation.metrics import mean_popularity as mean_popularity
    from counterplay.evaluation.metrics import ranking_metrics as ranking_metrics
    from counterplay.evaluation.metrics import rating_errors as rating_errors
    from counterplay.evaluation.policies import policy_values as policy_values
    from counterplay.evaluation.ranks import Ranks as Ranks
    from counterplay.evaluation.ranks import full_ranks as full_ranks
    from counterplay.evaluation.ranks import sampled_candidates as sampled_candidates
    from counterplay.evaluation.ranks import sampled_ranks as sampled_ranks
    from counterplay.evaluation.recommendations import top_k as top_k
    from counterplay.evaluation.recommendations import write_top_k as write_top_k
    from counterplay.evaluation.scoring import ModelScores as ModelScores
    from counterplay.evaluation.scoring import Scores as Scores
    from counterplay.evaluation.scoring import TableScores as TableScores
    from counterplay.evaluation.sensitivity import band as band
    from counterplay.evaluation.sensitivity import bands as bands
    from counterplay.evaluation.sensitivity import smallest_flip as smallest_flip
    from counterplay.evaluation.tables import read_scores as read_scores
    from counterplay.experiments.config import RunConfig as RunConfig
    from counterplay.experiments.evaluation import compare_runs as compare_runs
    from counterplay.experiments.evaluation import evaluate_run as evaluate_run
    from counterplay.experiments.evaluation import evaluate_scores as evaluate_scores
    from counterplay.experiments.exporting import export_run as export_run
    from counterplay.experiments.run import load_run as load_run
    from counterplay.experiments.run import read_record as read_record
    from counterplay.experiments.run import train_run as train_run
    from counterplay.experiments.search import Tuning as Tuning
    from counterplay.experiments.serving import recommend_run as recommend_run
    from counterplay.experiments.stage import Evaluation as Evaluation
    from counterplay.experiments.study import Study as Study
    from counterplay.experiments.study import load_study as load_study
    from counterplay.experiments.study import run_study as run_study
    from counterplay.experiments.study_config import StudyConfig as StudyConfig
    from counterplay.experiments.tuning import tune_methods as tune_methods
    from counterplay.experiments.worlds import online_runs as online_runs
    from counterplay.experiments.worlds import write_world as write_world
    from counterplay.learning.config import Game as Game
    from counterplay.learning.config import Training as Training
    from counterplay.learning.config import Weighted as Weighted
    from counterplay.learning.erm import erm as erm
    from counterplay.learning.game import acl as acl
    from counterplay.learning.opponent import opponent as opponent
    from counterplay.learning.propensity import ps as ps
    from counterplay.learning.records import Epoch as Epoch
    from counterplay.learning.records import Fit as Fit
    from counterplay.models.link import Link as Link
    from counterplay.models.registry import build as build
    from counterplay.models.scorer import History as History
    from counterplay.models.scorer import Scorer as Scorer
    from counterplay.report.page import write_report as write_report
    from counterplay.seeding import Streams as Streams
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
    "counterplay.data.store": ("load", "load_split", "save"),
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
    "counterplay.evaluation.certificate": ("certificate", "certificates"),
    "counterplay.evaluation.comparison": ("compare", "paired_difference"),
    "counterplay.evaluation.doubly_robust": ("doubly_robust",),
    "counterplay.evaluation.estimators": (
        "Estimate",
        "estimates",
        "popularity_propensities",
        "weights_of",
    ),
    "counterplay.evaluation.intervals": ("bootstrap", "interval"),
    "counterplay.evaluation.metrics": (
        "coverage",
        "gini",
        "mean_popularity",
        "ranking_metrics",
        "rating_errors",
    ),
    "counterplay.evaluation.policies": ("policy_values",),
    "counterplay.evaluation.ranks": (
        "Ranks",
        "full_ranks",
        "sampled_candidates",
        "sampled_ranks",
    ),
    "counterplay.evaluation.recommendations": ("top_k", "write_top_k"),
    "counterplay.evaluation.scoring": ("ModelScores", "Scores", "TableScores"),
    "counterplay.evaluation.sensitivity": ("band", "bands", "smallest_flip"),
    "counterplay.evaluation.tables": ("read_scores",),
    "counterplay.experiments.config": ("RunConfig",),
    "counterplay.experiments.evaluation": ("compare_runs", "evaluate_run", "evaluate_scores"),
    "counterplay.experiments.exporting": ("export_run",),
    "counterplay.experiments.run": ("load_run", "read_record", "train_run"),
    "counterplay.experiments.search": ("Tuning",),
    "counterplay.experiments.serving": ("recommend_run",),
    "counterplay.experiments.stage": ("Evaluation",),
    "counterplay.experiments.study": ("Study", "load_study", "run_study"),
    "counterplay.experiments.study_config": ("StudyConfig",),
    "counterplay.experiments.tuning": ("tune_methods",),
    "counterplay.experiments.worlds": ("online_runs", "write_world"),
    "counterplay.learning.config": ("Game", "Training", "Weighted"),
    "counterplay.learning.erm": ("erm",),
    "counterplay.learning.game": ("acl",),
    "counterplay.learning.opponent": ("opponent",),
    "counterplay.learning.propensity": ("ps",),
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
