"""`counterplay simulate` and `counterplay online`: worlds whose truth is known."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from counterplay.cli import console
from counterplay.cli.arguments import check_out
from counterplay.cli.options import Config, Json, Seed, several_settings
from counterplay.errors import ConfigError
from counterplay.places import check_dataset, check_finished, check_world

if TYPE_CHECKING:
    from counterplay.data.splits import Split
    from counterplay.simulation.world import World

SYNTHETIC, AUTHORS = "synthetic", "authors"


Source = Annotated[
    str,
    typer.Argument(
        help="'synthetic', or a dataset directory with ratings (makes a two-stage world)."
    ),
]
WorldOut = Annotated[Path, typer.Option(help="New world directory to write. Its log is OUT/log.")]
Users = Annotated[
    int | None, typer.Option(help="Number of users, for synthetic.", min=1, show_default="2000")
]
Items = Annotated[
    int | None, typer.Option(help="Number of items, for synthetic.", min=2, show_default="1000")
]
Exposure = Annotated[
    Literal["uniform", "popularity", "history", "mixture"] | None,
    typer.Option(help="Policy that decided what users saw, for synthetic.", show_default="history"),
]
Preset = Annotated[
    Literal["mild", "medium", "strong", "authors"] | None,
    typer.Option(
        help="Share of the personal part of clicks that is exposure, for synthetic: mild (30%), "
        "medium (45%) or strong (60%). With data: authors, as the paper's public code makes it.",
        show_default="none",
    ),
]
Confounding = Annotated[
    float | None,
    typer.Option(
        help="Hidden confounding of exposure and relevance, from 0 (none) to 1 (severe).",
        show_default="0.0",
    ),
]
Examination = Annotated[
    float | None,
    typer.Option(
        help="Position bias ρ: users examine position p with probability ρ^(p-1) (1: no bias).",
        show_default="0.9 for synthetic, 1.0 for two-stage",
    ),
]
Rates = Annotated[
    list[float] | None,
    typer.Option(
        help="Amount of exposure in each round of the log, three or more numbers. The last two "
        "rounds are validation and test.",
        show_default="1.0 0.1 0.1",
    ),
]
Impressions = Annotated[
    bool, typer.Option(help="Add what was shown and not clicked.", show_default=False)
]
RandomShare = Annotated[
    float, typer.Option(help="Share of what is shown that is random, with --impressions.")
]
WithTruth = Annotated[
    bool,
    typer.Option(
        help="Add list position, exposure and true propensity to the log.", show_default=False
    ),
]
Overwrite = Annotated[bool, typer.Option(help="Replace the world at --out.", show_default=False)]
Runs = Annotated[
    list[Path],
    typer.Argument(help="Run directories, trained on the log. The first is the control."),
]
RunData = Annotated[
    Path | None, typer.Option(help="Dataset directory of the runs.", show_default="WORLD/log")
]
Days = Annotated[
    int | None, typer.Option(help="Number of days of the test.", min=1, show_default="14")
]
Temperature = Annotated[
    float | None,
    typer.Option(
        help="Softmax temperature of the lists (0: always show the best items).",
        min=0,
        show_default="0.0",
    ),
]
Shares = Annotated[
    list[float] | None,
    typer.Option(help="Share of traffic for each run, in total 1.", show_default="equal"),
]
WorldDirectory = Annotated[Path, typer.Argument(help="World directory that simulate wrote.")]


def simulate(
    source: Source,
    out: WorldOut,
    users: Users = None,
    items: Items = None,
    exposure: Exposure = None,
    preset: Preset = None,
    confounding: Confounding = None,
    examination: Examination = None,
    rates: Rates = None,
    impressions: Impressions = False,
    random_share: RandomShare = 0.0,
    with_truth: WithTruth = False,
    config: Config = None,
    assignments: Annotated[list[str] | None, several_settings("sharpness=2")] = None,
    seed: Seed = None,
    overwrite: Overwrite = False,
    as_json: Json = False,
) -> None:
    """Create a simulated world with known truth, and draw a log from it to train on.

    Example: counterplay simulate synthetic --out world --confounding 0.5
    """
    if source != SYNTHETIC:
        check_dataset(Path(source))
    from counterplay.data.publishing import check_free
    from counterplay.simulation.logs import RATES, check_random_share, check_rates
    from counterplay.simulation.store import FILES
    from counterplay.simulation.writing import write_world

    check_free(out, replacing=FILES if overwrite else None)
    check_rates(rates or RATES, at_least=3)
    check_random_share(random_share, impressions)
    options: dict[str, Any] = {
        "n_users": users,
        "n_items": items,
        "exposure": exposure,
        "preset": preset,
        "confounding": confounding,
        "examination": examination,
        "seed": seed,
    }
    with console.notes() as notes, console.working("making the world"):
        world = _made(source, config, assignments or [], options)
        split = write_world(
            world,
            out,
            rates=rates or RATES,
            impressions=impressions,
            random_share=random_share,
            with_truth=with_truth,
            overwrite=overwrite,
        )
    _show_world(world, split, out, notes if as_json else None)


def _show_world(world: World, split: Split, out: Path, notes: list[str] | None) -> None:
    """Print what was made; as JSON where notes are given."""
    from counterplay.data.profiling import profile

    found = profile(split.interactions)
    others = {"unclicked": split.unclicked, "random": split.random}
    beside = {name: len(rows) for name, rows in others.items() if rows is not None}
    if notes is not None:
        console.print_json(
            {
                "out": str(out),
                "log": str(out / "log"),
                "world": world.name,
                "seed": world.seed,
                "fingerprint": split.interactions.fingerprint,
                "profile": found.to_dict(),
                "split": {"kind": split.kind, "counts": split.counts},
                **({"beside": beside} if beside else {}),
                "notes": notes,
            }
        )
        return
    console.print_pairs(
        {
            "world": f"{world.name}, {world.n_users:,} users, {world.n_items:,} items",
            "log": ", ".join(f"{count:,} {name}" for name, count in split.counts.items()) + " rows",
            **{f"{name} rows": f"{count:,} beside the log" for name, count in beside.items()},
            "density": f"{found.density:.3%} of all pairs clicked",
            "popularity": f"Gini {found.popularity_gini:.2f}",
            "written to": f"{out}; train on {out / 'log'}",
        }
    )


def _made(
    source: str, config: Path | None, assignments: list[str], options: dict[str, Any]
) -> World:
    from counterplay.settings import configured

    if source == SYNTHETIC:
        from counterplay.simulation.synthetic import Synthetic

        if options["preset"] == AUTHORS:
            raise ConfigError(
                "the preset authors is made of ratings; found it with a synthetic world; name a "
                "dataset directory with ratings, or another preset"
            )

        return configured(Synthetic, config, assignments, options).world()
    from counterplay.data.directory import load
    from counterplay.simulation.authors import Authors
    from counterplay.simulation.two_stage import TwoStage

    authors = options["preset"] == AUTHORS
    if authors:
        del options["preset"]
    for name in ("exposure",) if authors else ("n_users", "n_items", "exposure", "preset"):
        if options.pop(name) is not None:
            raise ConfigError(
                "users, items and exposure of a two-stage world come from its data; found "
                f"--{name.removeprefix('n_')}; leave it out, or make a synthetic world"
            )
    if authors:
        return configured(Authors, config, assignments, options).world(load(source))
    return configured(TwoStage, config, assignments, options).world(load(source))


def online(
    world: WorldDirectory,
    runs: Runs,
    data: RunData = None,
    days: Days = None,
    k: Annotated[
        list[int] | None,
        typer.Option(
            "--k", help="Cutoffs k of the metrics, one or more.", min=1, show_default="10"
        ),
    ] = None,
    temperature: Temperature = None,
    shares: Shares = None,
    seed: Seed = None,
    config: Config = None,
    assignments: Annotated[list[str] | None, several_settings("sessions_a_day=2")] = None,
    out: Annotated[Path | None, typer.Option(help="JSON file to write the result to.")] = None,
    as_json: Json = False,
) -> None:
    """Run a simulated online test: show the lists of each run to users and count their clicks.

    Example: counterplay online world runs/erm runs/game --days 14 --out online.json
    """
    check_world(world)
    check_dataset(data)
    for run in runs:
        check_finished(run)
    from counterplay.settings import configured
    from counterplay.simulation.online import OnlineTest

    check_out(out, config, ending=".json")
    options: dict[str, Any] = {
        "n_days": days,
        "k": k or None,
        "temperature": temperature,
        "shares": shares or None,
        "seed": seed,
    }
    settings = configured(OnlineTest, config, assignments or (), options)
    from counterplay.runs.online import online_runs

    with console.notes(), console.working("testing online"):
        result = online_runs(world, runs, settings, data=data).to_dict()
    if out is not None:
        from counterplay.data.files import write_json

        write_json(result, out)
    if as_json:
        console.print_json(result)
        return
    _show(result)
    if out is not None:
        console.print_pairs({"written to": str(out)})


def _show(result: dict[str, Any]) -> None:
    level = f"{result['config']['level']:.0%} intervals over users"
    truth = {(each["arm"], each["metric"], each["k"]): each["value"] for each in result["truth"]}
    rows = [{"arm": arm["arm"], **each} for arm in result["arms"] for each in arm["measures"]]
    counts = {arm["arm"]: arm for arm in result["arms"]}
    true = [truth.get((each["arm"], each["metric"], each["k"])) for each in rows]
    console.print_table(
        f"{result['world']}, {result['config']['n_days']} days; {level}",
        {
            "run": [each["arm"] for each in rows],
            "users": [f"{counts[each['arm']]['n_users']:,}" for each in rows],
            "sessions": [f"{counts[each['arm']]['n_sessions']:,}" for each in rows],
            "metric": [f"{each['metric']}@{each['k']}" for each in rows],
            **{key: [f"{each[key]:.4f}" for each in rows] for key in ("value", "low", "high")},
            "truth": ["" if value is None else f"{value:.4f}" for value in true],
        },
    )
    changes = result["changes"]
    if not changes:
        return
    last = {each["arm"]: f"{each['p_value']:.4f}" for each in result["daily"]}
    columns = {"difference": "value", "low": "low", "high": "high"}
    console.print_table(
        f"difference to {result['control']}; the always-valid p is safe for daily checks of ctr",
        {
            "run": [each["arm"] for each in changes],
            "metric": [f"{each['metric']}@{each['k']}" for each in changes],
            **{name: [f"{each[key]:+.4f}" for each in changes] for name, key in columns.items()},
            "p": [f"{each['p_value']:.4f}" for each in changes],
            "always-valid p": [
                last[each["arm"]] if each["metric"] == "ctr" else "" for each in changes
            ],
        },
    )
