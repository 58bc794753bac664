"""What the page says of a run's weights."""

from __future__ import annotations

import pytest

from counterplay.learning.records import Epoch
from counterplay.report.blocks import Chart, Part, Prose, Table
from counterplay.report.training import training_section
from counterplay.study.records import Findings, NamedRun

from .conftest import make_record


def run(shares: list[float | None], *, best: int, objective: float | None) -> NamedRun:
    epochs = tuple(
        Epoch(number, candidate_loss=0.5, ess=share, objective=objective)
        for number, share in enumerate(shares)
    )
    return make_record().runs[-1].model_copy(update={"epochs": epochs, "best_epoch": best})


def said(found: NamedRun) -> str:
    section = training_section(Findings(name="log", runs=(found,)))
    assert section is not None
    (part,) = section.blocks
    assert isinstance(part, Part)
    prose, chart = part.blocks
    assert isinstance(prose, Prose)
    assert isinstance(chart, Chart)
    (table,) = chart.tables
    assert isinstance(table, Table)
    assert ("effective share" in table.columns) == (found.epochs[0].ess is not None)
    return str(prose.paragraphs[0])


@pytest.mark.parametrize(
    ("objective", "who"), [(1.0, "the opponent has"), (None, "the weights have")]
)
def test_weights_without_effect_at_the_epoch_kept_are_named(
    objective: float | None, who: str
) -> None:
    text = said(run([0.5, 0.9951, 0.5], best=1, objective=objective))
    share = "The effective sample size of the weights is 100% of the rows"
    assert text.endswith(f"{share}: {who} no effect; this is plain learning.")


def test_weights_with_an_effect_are_told_by_their_share() -> None:
    text = said(run([0.999, 0.42], best=1, objective=1.0))
    assert text.endswith("The effective sample size of the weights is 42% of the rows.")


def test_plain_learning_has_no_weights() -> None:
    assert "effective" not in said(run([None, None], best=0, objective=None))
