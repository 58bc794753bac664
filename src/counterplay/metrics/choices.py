"""What settings may say of metrics; it loads no numpy, so that a mistake is told at once."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AfterValidator

from counterplay.metrics.formulas import known, row_metrics

Protocol = Literal["full", "sampled"]  # ranks among all unseen items, or among some of them
RowMetric = Annotated[str, AfterValidator(lambda name: known(name, row_metrics()))]
