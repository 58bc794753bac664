"""What a study does, with defaults that follow from the data."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import numpy as np
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, model_validator

from counterplay.data.impressions import held_out_clicks, tells_apart
from counterplay.data.preparation import Preparation
from counterplay.data.splits import PARTS, TRAIN, VALIDATION
from counterplay.errors import ConfigError, DataError
from counterplay.evaluation.estimators import ESTIMATORS, trusted
from counterplay.evaluation.old_system import NAME as OLD_SYSTEM
from counterplay.evaluation.random_rows import random_rows_of, unseen_random_rows
from counterplay.evaluation.settings import Evaluation
from counterplay.learning.config import Training
from counterplay.learning.methods import method_of
from counterplay.models.registry import ModelName, ModelSettings
from counterplay.runs.config import RunConfig, ValidationSettings, kind_of
from counterplay.runs.defaults import (
    cutoffs_for,
    least_unseen,
    training_for,
    validation_for,
)
from counterplay.simulation.online import OnlineTest
from counterplay.study.field import (
    FIELD,
    can_rate,
    check_can_learn,
    entrant_of,
    field_for,
    known_word,
    training_of,
    without_files,
)

if TYPE_CHECKING:
    from counterplay.data.interactions import Interactions
    from counterplay.data.splits import Split
    from counterplay.simulation.world import World

GAMMAS = (1.0, 1.1, 1.25, 1.5, 2.0, 3.0, 5.0)


Word = Annotated[str, AfterValidator(known_word)]  # a model, a method, or both as in mlp-acl


class StudyConfig(BaseModel):
    """What is trained, and how it is evaluated.

    Attributes:
        candidates: What is trained: a model (ease), a method for the study's `model` (acl), or both
            (mlp-acl); a file of scores is moved to `scores`. Unless named: those of the default
            that the log has room for, and attn if it has times, shown if it has impressions, and
            ips if it has propensities.
        model: Model that the methods train; the exposure model is of the same class.
        dim: Hidden dimension of that model.
        feedback: Treat each row as a click (clicks), or predict the ratings (ratings).
        training: Settings that all candidates share; what is not set follows from the size of the
            log.
        runs: Other candidates: a section [runs.NAME] each, as `counterplay train --config` takes
            it.
        scores: Candidates known only by their scores: NAME = "file", with columns user, item and
            score.
        random_rows: File with columns user, item and clicked: impressions whose items were drawn at
            random. They are never trained on.
        preparation: How to read, filter and split the log.
        evaluation: How to evaluate; by default with bands, and with the oracle in worlds. Its
            protocol, first metric and first cutoff also select the best epoch of each candidate.
        online: The online test, in worlds.
        gallery_users: Number of users that the report shows by their ids; 0 for none.
        seed: Random seed of training and evaluation.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    candidates: tuple[Word, ...] = FIELD
    model: ModelName = "gmf"
    dim: Annotated[int, Field(ge=1)] = 32
    feedback: Literal["clicks", "ratings"] = "clicks"
    training: Training = Training()
    runs: dict[str, RunConfig] = {}
    scores: dict[str, Path] = {}
    random_rows: Path | None = None
    preparation: Preparation = Preparation()
    evaluation: Evaluation = Evaluation()
    online: OnlineTest = OnlineTest()
    gallery_users: Annotated[int, Field(ge=0, le=200)] = 50
    seed: Annotated[int, Field(ge=0)] = 0

    @model_validator(mode="before")
    @classmethod
    def _files_are_scores(cls, values: Any) -> Any:
        return without_files(values) if isinstance(values, dict) else values

    @property
    def names(self) -> tuple[str, ...]:
        """The candidates that are trained; of the default field those that predict ratings."""
        drop = self.feedback == "ratings" and "candidates" not in self.model_fields_set
        return *(each for each in self.candidates if not drop or can_rate(each)), *self.runs

    def for_log(self, split: Split) -> StudyConfig:
        """Return the same with the candidates that this log can teach, if none were named."""
        if "candidates" in self.model_fields_set:
            return self
        ratings = self.feedback == "ratings"
        return self.model_copy(update={"candidates": field_for(split, ratings=ratings)})

    def check(self, split: Split, *, world: bool) -> Evaluation:
        """Refuse, before anything is trained, what cannot end well; return how to evaluate."""
        from counterplay.runs.validating import check_cutoff

        self._check_names(world=world)
        self._check_rows(split)
        losses = set()
        for name in self.names:
            wanted = self.run(name, split)
            check_can_learn(name, wanted, split, ratings=self.feedback == "ratings")
            wanted.of_method()
            if wanted.training.loss != "squared":
                check_cutoff(wanted.validation, split)
            losses.add(wanted.training.loss == "squared")
        if losses != {self.feedback == "ratings"}:
            raise ConfigError(
                "all candidates must do the same, rank or predict ratings; found a loss that does "
                f"not go with feedback {self.feedback}; leave training.loss out, or change feedback"
            )
        if self.scores and self.feedback == "ratings":
            raise ConfigError(
                "given scores rank items, and predict no ratings; found "
                f"'{next(iter(self.scores))}' with feedback ratings; leave one of them out"
            )
        if self.random_rows is not None and self.feedback == "ratings":
            raise ConfigError(
                "random rows are clicked or not; found feedback ratings; leave one of them out"
            )
        how = self.evaluation_of(split, world=world)
        random = self.random_rows is not None or split.random is not None
        _check_evaluation(how, split, world=world, random=random)
        return how

    def random(self, split: Split, how: Evaluation) -> Interactions | None:
        """Read the random rows, and leave out what cannot be judged; None where there are none."""
        if self.feedback == "ratings":
            return None
        named = self.preparation.model_dump(include={"user", "item"})
        found = random_rows_of(self.random_rows, split, **named)
        if found is None:
            return None
        seen = split.interactions.take(split.part < PARTS.index(how.part))
        return unseen_random_rows(found, seen)

    def _check_names(self, *, world: bool) -> None:
        names = [*self.candidates, *self.runs, *self.scores, *([OLD_SYSTEM] if world else [])]
        repeated = [name for place, name in enumerate(names) if name in names[:place]]
        unsafe = [
            name
            for name in self.runs
            if name in ("", ".", "..") or Path(name).name != name or not name.isprintable()
        ]
        if unsafe or repeated:
            raise ConfigError(
                "every candidate must have a name of its own that can be a folder's; found "
                f"'{(unsafe + repeated)[0]}'{'' if unsafe else ' twice'}; rename it, or name it "
                "once"
            )
        if not self.names:
            found = "scores alone" if self.scores else "none"
            raise ConfigError(
                f"a study needs candidates to train; found {found}; name one more, such as pop"
            )

    def _check_rows(self, split: Split) -> None:
        log = split.interactions
        if not split.counts["test"]:
            other = "" if split.kind == "random" else "choose --split random (split='random'), or "
            raise DataError(
                f"a study needs rows to test on; found none after the split {split.kind} of "
                f"{len(log):,} rows; {other}take a longer log"
            )
        n_events = np.diff(log.offsets)
        n_users = np.count_nonzero(n_events)
        if len(log.distinct_pairs) == n_users == np.count_nonzero(n_events > 1):
            raise DataError(
                "a study needs users who chose between items; found only repeats: each of "
                f"{n_users:,} users has one item in all {len(log):,} rows; check "
                "the columns of users and items, or take a longer log"
            )
        if self.feedback == "ratings" and log.rating is None:
            raise DataError(
                "feedback ratings needs ratings; found a log without; leave feedback out"
            )
        if not min(least_unseen(split, TRAIN), least_unseen(split, VALIDATION)):
            raise DataError(
                "every user must leave an item that others can be compared with; found users with "
                f"all {log.n_items:,} items; leave them out, or take a log of more items"
            )

    def run(self, name: str, split: Split) -> RunConfig:
        """Return how a candidate is trained on a split."""
        loss = {} if self.feedback == "clicks" else {"loss": "squared"}
        deciding = self.evaluation.model_copy(update={"k": self.cutoffs(split)})
        entrant = None if name in self.runs else entrant_of(name)
        method = self.runs[name].method if entrant is None else entrant.method
        shown, by = None, validation_for(deciding)
        if method_of(method).needs == "impressions" and split.unclicked_part is not None:
            shown = int((split.part == TRAIN).sum() + (split.unclicked_part == TRAIN).sum())
            by = {"metric": "auc"}  # what was shown says who clicks, whatever was shown
        options = training_for(split.train, seed=self.seed, n_shown=shown)
        options |= training_of(entrant and entrant.model, loss | _set(self.training))
        if entrant is None:
            own = self.runs[name]
            judged = ValidationSettings(**by | _set(own.validation))
            training = _training(name, own.method, options | _set(own.training))
            changed = {"training": training, "validation": judged}
            return kind_of({"method": own.method})(**dict(own) | changed)
        model = ModelSettings(name=self.model, dim=self.dim)
        if shown is not None and "model" not in self.model_fields_set:
            model = model.model_copy(update={"name": "cf"})  # click rates differ: a bias each item
        given = entrant.model
        return kind_of({"method": method})(
            method=method,
            candidate=model if given is None else model.model_copy(update={"name": given}),
            exposure=model,
            training=_training(name, method, options),
            validation=ValidationSettings(**by),
        )

    def evaluation_of(self, split: Split, *, world: bool) -> Evaluation:
        """Return how to evaluate: the given settings, and what follows from the data."""
        usual: dict[str, Any] = {"gamma": GAMMAS, "seed": self.seed, "k": self.cutoffs(split)}
        spared = {"propensities"} if world else set()  # the oracle stands in for them
        if self.feedback == "ratings":
            spared.add("world")  # which knows nothing of ratings
        part = PARTS.index(self.evaluation.part)
        usual["estimators"] = tuple(
            each.name
            for each in ESTIMATORS.values()
            if each.usual and each.needs not in spared
            if not (each.clicks and self.feedback == "ratings")
            if each.applies(split.interactions, world=world, shown=tells_apart(split, part))
        )
        return Evaluation(**usual | _set(self.evaluation))

    def cutoffs(self, split: Split) -> tuple[int, ...]:
        """Return the cutoffs, by default such that a list does not hold all that is ranked."""
        given = "k" in self.evaluation.model_fields_set or self.evaluation.protocol == "sampled"
        return self.evaluation.k if given else cutoffs_for(split, self.evaluation.k)

    def online_in(self, world: World) -> OnlineTest:
        """Return how to test online, by default at the cutoffs that lists are long enough for."""
        if "k" in self.online.model_fields_set:
            return self.online
        k = tuple(each for each in self.evaluation.k if each <= world.list_length)
        return self.online.model_copy(update={"k": k or (world.list_length,)})

    def refuse_preparation(self, what: str) -> None:
        """Refuse to prepare what is prepared already."""
        given = sorted(self.preparation.model_fields_set)
        if given:
            raise ConfigError(
                f"{what} is prepared already; found preparation.{given[0]}; leave it out"
            )


def _training(name: str, method: str, options: dict[str, Any]) -> Any:
    """Return the training settings of a candidate, of the kind that its method has."""
    try:
        return type(kind_of({"method": method})().training)(**options)
    except ValidationError as error:  # each is valid, but not all of them together
        found = error.errors()[0]["msg"].removeprefix("Value error, ")
        raise ConfigError(
            f"the settings of a candidate must go together; found of '{name}' that {found}; "
            "change one of them"
        ) from None


def _check_evaluation(how: Evaluation, split: Split, *, world: bool, random: bool) -> None:
    if not set(how.estimators) & set(trusted()):
        raise ConfigError(
            "a verdict needs an estimator whose weights all candidates share, of "
            f"{', '.join(trusted())}; found {', '.join(how.estimators)}; add one"
        )
    for name in how.estimators:
        shown = tells_apart(split, PARTS.index(how.part))
        ESTIMATORS[name].check(split.interactions, world=world, random=random, shown=shown)
    held_out_clicks(split, how.part)
    room = min(least_unseen(split, part) for part in (VALIDATION, PARTS.index(how.part)))
    if how.protocol == "sampled" and room < how.n_negatives:
        raise ConfigError(
            "sampled items must be unseen by the user whom they are drawn for; found "
            f"evaluation.n_negatives={how.n_negatives:,} and a user with {room:,}; take fewer"
        )


def _set(settings: BaseModel) -> dict[str, Any]:
    """Return what was set, and not left at its default."""
    return {name: getattr(settings, name) for name in settings.model_fields_set}
