"""The candidates of a study, and the words that name them: a model, a method, or both."""

from __future__ import annotations

from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from counterplay.errors import ConfigError
from counterplay.learning.methods import METHODS, method_of
from counterplay.models.names import MODELS

if TYPE_CHECKING:
    from counterplay.data.splits import Split
    from counterplay.runs.config import RunConfig

FIELD = ("pop", "ease", "knn", "erm", "ps", "acl")  # where nobody names others
_SHORT = {"attn": {"epochs": 20, "patience": 5}}  # whose epochs take long


class Entrant(NamedTuple):
    """What a word stands for."""

    model: str | None  #: None is the model of the study.
    method: str


def entrant_of(word: str) -> Entrant:
    """Read a word: a method for the study's model, a model learnt plainly, or model-method.

    Example:
        >>> entrant_of("ps"), entrant_of("ease"), entrant_of("mlp-acl")[:2]
        (Entrant(model=None, method='ps'), Entrant(model='ease', method='erm'), ('mlp', 'acl'))
    """
    if word in METHODS:
        return Entrant(None, word)
    if word in MODELS:
        return Entrant(word, "erm")
    model, _, method = word.partition("-")
    if model in MODELS and (method in METHODS or ":" in method):
        method_of(method)
        return Entrant(model, method)
    if ":" in word:
        method_of(word)
        return Entrant(None, word)
    near = get_close_matches(word, [*MODELS, *METHODS], n=1)
    advice = f"did you mean '{near[0]}'" if near else "choose one of them"
    raise ConfigError(
        f"a candidate must be a model ({', '.join(MODELS)}), a method ({', '.join(METHODS)}), both "
        f"as in mlp-acl, your own method as module:name, or a file of scores; found '{word}'; "
        f"{advice}"
    )


def known_word(word: str) -> str:
    """Return a word that names a candidate; refuse another one."""
    entrant_of(word)
    return word


def without_files(values: dict[str, Any]) -> dict[str, Any]:
    """Return a study's settings with files among its candidates as given scores."""
    words = values.get("candidates")
    if not isinstance(words, list | tuple) or not all(isinstance(each, str) for each in words):
        return values
    files = [each for each in words if _is_file(each)]
    if not files:
        return values
    scores = dict(values.get("scores") or {})
    for file in files:
        name = Path(file).stem
        if name in scores:
            raise ConfigError(
                "every candidate must have a name of its own, which is its file's; found two files "
                f"named '{name}'; rename one"
            )
        scores[name] = file
    kept = tuple(each for each in words if each not in files)
    return {**values, "candidates": kept, "scores": scores}


def _is_file(word: str) -> bool:
    try:
        entrant_of(word)
    except ConfigError:
        return Path(word).is_file()
    return False  # a word goes before a file of that name


def at_once(model: str) -> bool:
    """Tell whether a model is computed from a log at once; such a model predicts no ratings."""
    from counterplay.models.popularity import Popularity
    from counterplay.models.registry import ModelSettings
    from counterplay.models.solved import Solved

    return issubclass(ModelSettings(name=model).kind, Popularity | Solved)


def training_of(model: str | None, given: dict[str, Any]) -> dict[str, Any]:
    """Return the given training options, with what follows from a model that was named."""
    once = model is not None and at_once(model)
    return _SHORT.get(model or "", {}) | given | ({"epochs": 1} if once else {})


def can_rate(word: str) -> bool:
    """Tell whether a candidate can predict ratings."""
    model = entrant_of(word).model
    return model is None or not at_once(model)


def check_can_learn(name: str, run: RunConfig, split: Split, *, ratings: bool) -> None:
    """Refuse a candidate that has no room, or that the log does not teach."""
    size, log = run.candidate, split.interactions
    size.kind.check_size(log.n_items, size)
    if ratings and at_once(size.name):
        raise ConfigError(
            f"all candidates must predict ratings with feedback ratings; found '{name}', which "
            "ranks items; leave it out"
        )
    needs = method_of(run.method).needs
    there = {
        "impressions": split.unclicked is not None,
        "propensities": log.propensity is not None,
        "ratings": ratings,
    }
    if needs is not None and not there[needs]:
        remedy = {
            "impressions": "name the column with --clicked",
            "propensities": "name the column with --propensity",
            "ratings": "predict them with --feedback ratings",
        }
        raise ConfigError(
            f"the candidate '{name}' needs {needs}; found a log without, or another feedback; "
            f"{remedy[needs]}, or leave it out"
        )


def field_for(split: Split, *, ratings: bool) -> tuple[str, ...]:
    """Return the candidates that a log can teach, where nobody names others."""
    from counterplay.data.impressions import tells_apart
    from counterplay.data.splits import VALIDATION

    if ratings:
        return tuple(word for word in FIELD if can_rate(word))
    log = split.interactions
    more = ["attn"] if log.time is not None else []
    more += ["shown"] if tells_apart(split, VALIDATION) else []
    more += ["ips"] if log.propensity is not None else []
    return (*(word for word in FIELD if too_large(word, log.n_items) is None), *more)


def too_large(word: str, n_items: int) -> str | None:
    """Return why a candidate has no room for so many items, if so."""
    from counterplay.models.registry import ModelSettings

    model = entrant_of(word).model
    if model is not None:
        size = ModelSettings(name=model)
        try:
            size.kind.check_size(n_items, size)
        except ConfigError as error:
            return str(error)
    return None
