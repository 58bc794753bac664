"""Users to look at: what they did, what each candidate would show them, and what they chose."""

from __future__ import annotations

from typing import TYPE_CHECKING

from counterplay.report.blocks import People, Person, Section, Shown
from counterplay.report.words import count

if TYPE_CHECKING:
    from counterplay.evaluation.audience_records import SampledUser, UserGallery
    from counterplay.study.records import Findings

_ALWAYS = 3  # users who are shown at once, and printed


def users_section(record: Findings) -> Section | None:
    """Return three users, and a choice of all others of the sample."""
    diagnostics = record.evaluation.diagnostics if record.evaluation else None
    found = diagnostics.gallery if diagnostics else None
    if found is None or not found.users:
        return None
    ratings = found.feedback == "ratings"
    came = "Rated in the test rows" if ratings else "Clicked in the test rows"
    labels = [_label(found, place) for place in range(len(found.items))]
    people = [_person(labels, user) for user in _spread(found.users)]
    data = {
        "items": labels,
        "users": [
            {
                "id": user.user,
                "history": user.history,
                "more": user.n_history - len(user.history),
                "chosen": user.chosen,
                "later": user.n_chosen - len(user.chosen),
                "ratings": user.ratings,
                "lists": list(user.lists.values()),
            }
            for user in found.users
        ],
        "candidates": list(found.users[0].lists),
    }
    order = "the latest last" if found.in_order else "in no order: the log has no times"
    reading = (
        f"{count(len(found.users))} of {count(found.n_users)} users, drawn at random: their "
        f"history ({order}), the first {count(found.k)} items that each candidate would show them, "
        "and what they chose afterwards, which is marked in the lists. What was never shown could "
        "not be chosen: a list without a mark need not be a bad one."
    )
    return Section("users", "Look at users", reading, [People(people, data, came)])


def _spread(users: tuple[SampledUser, ...]) -> list[SampledUser]:
    """Return the least, the middle and the most active one, each once."""
    ordered = sorted(users, key=lambda user: user.n_history)
    places = dict.fromkeys((0, len(ordered) // 2, len(ordered) - 1))
    return [ordered[place] for place in places][:_ALWAYS]


def _label(found: UserGallery, place: int) -> str:
    """Return what an item is called: its name, with its id, where it has one."""
    name = found.names[place] if found.names is not None else None
    return found.items[place] if not name else f"{name} ({found.items[place]})"


def _person(labels: list[str], user: SampledUser) -> Person:
    chosen = [labels[place] for place in user.chosen]
    if user.ratings is not None:
        pairs = zip(chosen, user.ratings, strict=True)
        chosen = [f"{name}: {rating:g}" for name, rating in pairs]
    if user.n_chosen > len(user.chosen):
        chosen.append(f"and {count(user.n_chosen - len(user.chosen))} more")
    return Person(
        user.user,
        [labels[place] for place in user.history],
        user.n_history - len(user.history),
        chosen,
        {
            name: [Shown(labels[place], place in user.chosen) for place in places]
            for name, places in user.lists.items()
        },
    )
