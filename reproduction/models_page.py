"""The page of all models: what to take from it, a table a log, and published figures beside."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from reproduction.models_fit import (
    DIM,
    EPOCHS,
    L2,
    LINES,
    LOGS,
    N_NEGATIVES,
    N_SAMPLED,
    RATE,
    TRIAL_EPOCHS,
    TRIAL_PATIENCE,
)
from reproduction.models_settings import N_TRIALS, SEED
from reproduction.models_summary import LEVEL, column_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

NEURAL = ("gmf", "mlp", "ncf")


class Published(NamedTuple):
    """A figure of others, with our line that comes nearest to it."""

    what: str
    line: str
    protocol: str
    hit: float
    ndcg: float | None
    source: str
    differs: str


_DACREMA = "Ferrari Dacrema et al. 2019, full results of the NCF experiment"
_KLENITSKIY = "Klenitskiy and Vasilev 2023, arXiv 2309.07602"
_NCF = "split and sampled items of the NCF paper"
_3416 = "items with fewer than five ratings left out (3,416 stay), histories of 200, dimension 64"
PUBLISHED = (  # MovieLens-1M, the last item of each user
    Published("TopPop", "pop", "sampled", 45.31, 25.42, _DACREMA, _NCF),
    Published("ItemKNN", "knn", "sampled", 65.96, 39.00, _DACREMA, f"{_NCF}; weighted by BM25"),
    Published("NeuMF", "ncf", "sampled", 67.25, 40.11, _DACREMA, f"{_NCF}; pretrained"),
    Published(
        "MF", "cf", "sampled", 72.94, None, "Rendle et al. 2020, arXiv 2005.09683",
        f"{_NCF}; dimensions up to 192, 256 epochs, 8 sampled items a click",
    ),
    Published("SASRec", "attn", "full", 25.00, 13.41, _KLENITSKIY, _3416),
    Published("SASRec+", "attn", "full", 31.52, 18.21, _KLENITSKIY, f"{_3416}; softmax"),
)  # fmt: skip


def lead(cells: Sequence[Mapping[str, Any]]) -> str:
    """Say in a paragraph what a reader should take from the tables."""
    said = []
    for each in cells:
        reached = {line: _final(own)["full ndcg"]["value"] for line, own in each["lines"].items()}
        order = sorted(reached, key=lambda line: -reached[line])
        top = ", ".join(f"`{line}` {reached[line]:.1f}" for line in order[:3])
        said.append(f"on {each['title']} {top}")
    beaten = {
        line: [_below(each, line, "ease") for each in cells if line in each["lines"]]
        for line in NEURAL
    }
    ease = " ".join(
        f"`{line}` stays below `ease` on {sum(where)} of {len(where)} logs."
        for line, where in beaten.items()
    )
    near = sum(
        each["best"] == "ease" or each["behind"]["ease"]["high"] >= 0
        for each in cells
        if "ease" in each["lines"]
    )
    reversals = sum(len(each["reversed"]) for each in cells)
    n_pairs = sum(len(each["lines"]) * (len(each["lines"]) - 1) // 2 for each in cells)
    return (
        "`ease` takes seconds, and is the best or not beyond chance behind it on "
        f"{near} of {len(cells)} logs. By full-ranking NDCG@10, in per cent, {'; '.join(said)}. "
        f"{ease} "
        f"Sampled items put {reversals} of {n_pairs} pairs of models in another order than full "
        "ranking does, so choose a model by full ranking."
    )


def _below(cell: Mapping[str, Any], line: str, other: str) -> bool:
    lines = cell["lines"]
    one, two = (_final(lines[name])["full ndcg"]["value"] for name in (line, other))
    return bool(one < two)


def _final(own: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return what a line reaches, tuned where it was."""
    found: Mapping[str, Any] = own[column_of(own)]
    return found


def page(cells: Sequence[Mapping[str, Any]], notes: str) -> str:
    """Return the page."""
    lines = ["# All models, by full ranking and among sampled items", "", lead(cells), ""]
    lines += [notes.strip(), ""]
    for each in cells:
        lines += _of_log(each)
    lines += _wider(cells) + _protocol(cells) + _published(cells)
    return "\n".join(lines) + "\n"


def _of_log(cell: Mapping[str, Any]) -> list[str]:
    names = [name for name in LINES if name in cell["lines"]]
    found = [
        f"## {cell['title']}",
        "",
        f"{cell['n']:,} users with one test item each. Per cent, with {LEVEL:.0%} intervals over "
        f"users. The last column is NDCG@10 minus that of `{cell['best']}`, which is the best on "
        "validation rows; its intervals hold for all models of this log at once.",
        "",
        "| model | Hit@10, defaults | Hit@10, tuned | NDCG@10, defaults | NDCG@10, tuned | to the "
        "best |",
        "|---|---|---|---|---|---|",
    ]
    found += [
        f"| `{name}` | {_both(cell['lines'][name], 'full hit')} | "
        f"{_both(cell['lines'][name], 'full ndcg')} | {_difference(cell['behind'].get(name))} |"
        for name in names
    ]
    found += [
        "",
        f"The same among {N_SAMPLED} sampled items; beside it what tuning changed in NDCG@10 of "
        "full ranking (all lines of the log at once), the epochs that were kept, and the seconds "
        "of a tuned fit.",
        "",
        "| model | Hit@10, defaults | Hit@10, tuned | NDCG@10, defaults | NDCG@10, tuned | tuned "
        "minus defaults | epochs | seconds |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for name in names:
        own = cell["lines"][name]
        epochs = ", ".join(str(each + 1) for each in _final(own)["best_epochs"])
        found.append(
            f"| `{name}` | {_both(own, 'sampled hit')} | {_both(own, 'sampled ndcg')} | "
            f"{_difference(cell['gain'].get(name))} | {epochs} | {_final(own)['seconds']:.0f} |"
        )
    absent = [f"`{name}`" for name in LINES if name not in names]
    if absent:
        found += ["", f"Not run on this log yet: {', '.join(absent)}."]
    untuned = [f"`{name}`" for name in names if "tuned" not in cell["lines"][name]]
    if untuned:
        found += [
            "",
            f"Run with the defaults only, and compared by them: {', '.join(untuned)}.",
        ]
    if cell["reversed"]:
        pairs = ", ".join(f"`{one}` and `{other}`" for one, other in cell["reversed"])
        found += ["", f"Sampled items reverse the order of {pairs}."]
    return [*found, ""]


def _both(own: Mapping[str, Any], key: str) -> str:
    columns = (own.get(column) for column in ("defaults", "tuned"))
    return " | ".join("–" if each is None else _value(each[key]) for each in columns)


def _value(cell: Mapping[str, float]) -> str:
    return f"{cell['value']:.2f} [{cell['low']:.2f}, {cell['high']:.2f}]"


def _difference(found: Mapping[str, float] | None) -> str:
    if found is None:
        return "–"
    return f"{found['value']:+.2f} [{found['low']:+.2f}, {found['high']:+.2f}]"


def _wider(cells: Sequence[Mapping[str, Any]]) -> list[str]:
    wide = [each for each in cells if "wider" in each]
    if not wide:
        return []
    return [
        "## A larger dimension by itself",
        "",
        "`gmf` with twice the default dimension and all else as by default, seed 0, full ranking. "
        "The intervals hold for all logs at once.",
        "",
        "| log | Hit@10, defaults | Hit@10, wider | NDCG@10, defaults | NDCG@10, wider | wider "
        "minus defaults | seconds, defaults | seconds, wider |",
        "|---|---|---|---|---|---|---|---|",
        *(
            f"| {each['title']} | {_pair(each['wider']['hit'])} | {_pair(each['wider']['ndcg'])} | "
            f"{_difference(each['wider']['gain'])} | {_pair(each['wider']['seconds'], 0)} |"
            for each in wide
        ),
        "",
    ]


def _pair(values: Sequence[float], digits: int = 2) -> str:
    wider, usual = values
    return f"{usual:.{digits}f} | {wider:.{digits}f}"


def _protocol(cells: Sequence[Mapping[str, Any]]) -> list[str]:
    seeds = ", ".join(
        f"{each['title']} {max(len(own['defaults']['seeds']) for own in each['lines'].values())}"
        for each in cells
    )
    million = LOGS["ml-1m"]
    return [
        "## How it was measured",
        "",
        "- Logs: MovieLens-1M, because most published figures are of it; MovieLens-100K, because "
        "anyone can run it in minutes; LastFM (hetrec 2011), because it is music, sparse, and of "
        "another source. Ratings count as clicks, whatever they are. Of LastFM the first event of "
        "each pair counts, and the 5-core of these; its times are days, so the order within a day "
        "is a fixed mix of the ids.",
        "- Split: each user's last item is the test, the one before validation. Test items are "
        "ranked among all items that the user has in no earlier row (full), or among "
        f"{N_SAMPLED} of them that are drawn evenly once (sampled). Models are not fitted again "
        "with the validation rows, but histories have them.",
        f"- Tuning: {N_TRIALS} trials for every model and log, the defaults first, then a Halton "
        f"sequence, with seed {SEED}; chosen by full-ranking NDCG@10 of validation rows. It is the "
        "space of the library's tuning; for what is learnt by gradients a part of it: rate "
        f"{RATE[0]} to {RATE[1]}, ℓ2 {L2[0]:g} to {L2[1]:g}, {N_NEGATIVES[0]} to {N_NEGATIVES[1]} "
        f"sampled items, `dim` {DIM[0]} to {DIM[1]}, and the default batch. Trials have a patience "
        f"of {TRIAL_PATIENCE} epochs, and {TRIAL_EPOCHS} at most. `pop` has nothing to tune.",
        f"- MovieLens-1M has the settings that were chosen on {LOGS[str(million.tuned_on)].title}; "
        "what defaults scale with the size of a log, such as ℓ2, the batch and λ of `ease`, was "
        f"scaled by the same factors. Epochs were chosen by {million.judged_on:,} users, with a "
        f"patience of {million.patience}, not 15. A choice on a smaller log favours small "
        "dimensions.",
        f"- Reported fits: {EPOCHS} epochs at most, seeds from 0: {seeds}. A user's value is the "
        "mean over seeds; intervals are over users only. `pop`, `knn` and `ease` involve no chance "
        "and were fitted once.",
        "- Features of users and items are used where a log has them, as by default, in `cf`, "
        "`gmf`, `mlp`, `ncf` and `attn`: MovieLens has them.",
        "",
    ]


def _published(cells: Sequence[Mapping[str, Any]]) -> list[str]:
    cell = next((each for each in cells if each["data"] == "ml-1m"), None)
    if cell is None:
        return []
    found = [
        "## Published figures on MovieLens-1M",
        "",
        "The last item of each user. None has exactly this protocol; the last column says what "
        "differs; besides, none of them uses features. Full-ranking figures of GMF, MLP or NCF for "
        "the last item could not be found with a source to check. RecBole's, of another split, "
        "stand beside ours by that split [on a page of their own](published.md); Anelli et al. "
        "2022 (arXiv 2203.01155) split otherwise again, so their figures are not comparable.",
        "",
        "| published | protocol | Hit@10 | NDCG@10 | ours, tuned | Hit@10 | NDCG@10 | source | "
        "what differs |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for each in PUBLISHED:
        if each.line not in cell["lines"]:
            continue
        own = _final(cell["lines"][each.line])
        ours = [own[f"{each.protocol} {metric}"]["value"] for metric in ("hit", "ndcg")]
        ndcg = "–" if each.ndcg is None else f"{each.ndcg:.2f}"
        found.append(
            f"| {each.what} | {each.protocol} | {each.hit:.2f} | {ndcg} | `{each.line}` | "
            f"{ours[0]:.2f} | {ours[1]:.2f} | {each.source} | {each.differs} |"
        )
    return found


def rows(cells: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return the lines of the summary of all experiments: the neural models beside ease."""
    found = []
    for each in cells:
        yardstick = _final(each["lines"]["ease"])["full ndcg"]["value"]
        for line in [name for name in NEURAL if name in each["lines"]]:
            own = each["lines"][line]
            ours = _final(own)["full ndcg"]["value"]
            found.append(
                {
                    "what": f"{each['title']}: full-ranking NDCG@10 (%) of {line}, "
                    f"{column_of(own)}",
                    "ours": f"{ours:.2f}, defaults {own['defaults']['full ndcg']['value']:.2f}",
                    "yardstick": f"{yardstick:.2f}, ease",
                    "ratio": f"{ours / yardstick:.2f}",
                    "goal": "none",
                    "met": None,
                }
            )
    return found
