from __future__ import annotations

import subprocess
import sys

import pytest

import counterplay as cp


def run_python(code: str) -> str:
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout.strip()


def test_public_names_are_exactly_those_announced() -> None:
    assert dir(cp) == sorted(cp.__all__)
    for name in cp.__all__:
        assert getattr(cp, name) is not None


def test_public_names_are_frozen() -> None:
    assert cp.__all__ == [
        "CheckpointError",
        "ConfigError",
        "CounterplayError",
        "CounterplayWarning",
        "DataError",
        "DivergedError",
        "Epoch",
        "Estimate",
        "Evaluation",
        "Exponential",
        "Factors",
        "FeatureTable",
        "Finding",
        "Fit",
        "Game",
        "Histories",
        "History",
        "Interactions",
        "Link",
        "Mixture",
        "ModelScores",
        "NegativeSampler",
        "NotFittedError",
        "OnlineTest",
        "Ranks",
        "RunConfig",
        "Scored",
        "Scorer",
        "Scores",
        "Split",
        "Streams",
        "Study",
        "StudyConfig",
        "Synthetic",
        "TableScores",
        "Training",
        "Tuning",
        "TwoStage",
        "Vocabulary",
        "Weighted",
        "World",
        "__version__",
        "acl",
        "bands",
        "bootstrap",
        "build",
        "certificates",
        "check_world",
        "compare",
        "compare_runs",
        "coverage",
        "doubly_robust",
        "erm",
        "estimates",
        "evaluate_run",
        "evaluate_scores",
        "export_run",
        "factors_of",
        "feedback_loop",
        "filter_by_events",
        "full_ranks",
        "gini_of_lists",
        "interval",
        "k_core",
        "leave_last_two_out",
        "load",
        "load_run",
        "load_split",
        "load_study",
        "load_world",
        "mean_popularity",
        "model_policy",
        "online_runs",
        "online_test",
        "opponent",
        "policy_values",
        "popularity_propensities",
        "profile",
        "ps",
        "ranking_metrics",
        "rating_errors",
        "read",
        "read_dataset",
        "read_record",
        "read_scores",
        "recommend_run",
        "run_study",
        "sampled_candidates",
        "sampled_ranks",
        "save",
        "save_world",
        "smallest_effect",
        "smallest_flip",
        "split_at_random",
        "split_by_time",
        "top_k",
        "train_run",
        "true_values",
        "tune_methods",
        "users_needed",
        "weights_of",
        "write_report",
        "write_top_k",
        "write_world",
    ]


def test_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'reed'"):
        _ = cp.reed


def test_importing_the_package_loads_nothing_heavy() -> None:
    heavy = "{'torch', 'polars', 'pyarrow', 'scipy', 'pydantic', 'plotly'}"
    assert run_python(f"import sys, counterplay; print({heavy} & set(sys.modules))") == "set()"


def test_reading_a_log_does_not_load_torch() -> None:
    code = (
        "import sys, counterplay as cp; cp.read({'user': [1, 2], 'item': [3, 4]}); "
        "print('torch' in sys.modules)"
    )
    assert run_python(code) == "False"
