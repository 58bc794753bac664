"""Which column of a table plays which role, by what is said or by its usual name."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING

from counterplay.errors import ConfigError, DataError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

ABSENT = "-"
COLUMNS = ("user", "item", "rating", "time", "exposed", "propensity", "position")
IMPRESSION_COLUMNS = ("random", "clicked")  # looked for only where they are wanted
SHOWN = dict.fromkeys(COLUMNS, ABSENT) | {"user": None, "item": None, "clicked": None}
_ALIASES = {  # the usual names, the surest first, in the form of `form_of`
    "user": "user userid uid usr customer customerid customernumber custid visitor visitorid "
    "member memberid client clientid reviewer reviewerid account accountid buyer buyerid person "
    "personid profileid anonymousid userpseudoid deviceid cookieid session sessionid",
    "item": "item itemid iid product productid productcode stockcode sku parentasin asin isbn "
    "movie movieid book bookid article articleid artist artistid track trackid song songid video "
    "videoid content contentid news newsid business businessid game gameid app appid anime animeid "
    "recipe recipeid job jobid ad adid listing listingid property propertyid hotel hotelid "
    "restaurant restaurantid goodsid offerid poi poiid venueid postid courseid items itemids slate",
    "rating": "rating stars bookrating userrating ratingvalue overall",
    "time": "time timestamp ts timems datetime date eventtime eventtimestamp unixreviewtime "
    "reviewtime invoicedate orderdate purchasedate transactiondate reviewdate eventdate createdat "
    "created tdat visittime",
    "exposed": "exposed exposure shown",
    "propensity": "propensity propensityscore pscore p",
    "position": "position slot rank pos",
    "random": "random israndom israndomized isrand explore",
    "clicked": "clicked click isclick isclicked label clicks",
}
_QUANTITIES = " quantity qty"  # of what was bought; negative ones were brought back
_OF_LISTS = " clickedlist clicklist labels clickidx clickindex clickedindex clickplace clickedplace"
_OF_LISTS += " clickposition clickedposition clickeditem clickitem clickeditemid clickitemid"
_OFTEN_LABELS = ("label", "clicks", "click")  # of clicks, or of something else
_DOUBTFUL = frozenset(
    ("p", "rank", "pos", "explore", *_QUANTITIES.split())
)  # names that often mean something else


def columns_of(
    wanted: Mapping[str, str | None],
    available: Sequence[str],
    *,
    lists: bool = False,
    second: bool = False,
    quantities: bool = False,
) -> dict[str, str]:
    """Return which of the available columns plays each role that the table has.

    None looks for a usual name (user, user_id, userId, customer …); '-' leaves the role out.
    Without a column of clicks every row is a click, but random rows must say which were clicked.
    With `lists`, a row holds a list of items, and may say the place or the item that was clicked.
    In a `second` table, what is named for the first one may have a usual name. `quantities` may
    stand for ratings that are not there.
    """
    chosen: dict[str, str] = {}
    if second:
        here = (ABSENT, *available)
        wanted = {role: name if name in here else None for role, name in wanted.items()}
    by_form = {form_of(name): name for name in reversed(available)}
    for role in (*COLUMNS, *(each for each in IMPRESSION_COLUMNS if each in wanted)):
        name = wanted.get(role)
        if name is None:
            aliases = _ALIASES[role] + (_OF_LISTS if lists and role == "clicked" else "")
            aliases += _QUANTITIES if quantities and role == "rating" else ""
            usual = (by_form[alias] for alias in aliases.split() if alias in by_form)
            name = next((each for each in usual if _may_be(role, each, wanted)), ABSENT)
        elif name != ABSENT and name not in available:
            raise DataError(_missing(role, name, available))
        if name != ABSENT:
            chosen[role] = name
        elif role in ("user", "item"):
            raise DataError(_missing(role, None, available))
    if "clicked" in wanted and "clicked" not in chosen and not second:  # whose clicks are the log
        if "random" in doubtful(chosen, wanted):
            del chosen["random"]
        if "random" in chosen or "random" not in wanted:
            raise DataError(_missing("clicked", None, available))
    for role, name in chosen.items():
        other = next(each for each, column in chosen.items() if column == name)
        if other != role:
            raise ConfigError(
                f"every role must have a column of its own; found '{name}' for {other} and for "
                f"{role}; name another, or leave one out with '-'"
            )
    return chosen


def _may_be(role: str, name: str, wanted: Mapping[str, str | None]) -> bool:
    """Tell whether a column is free for a role: what was named for another is not looked at."""
    return role in ("user", "item") or name not in wanted.values()


def doubtful(roles: Mapping[str, str], wanted: Mapping[str, str | None]) -> set[str]:
    """Return the roles whose columns were found by names that may mean something else.

    Such a column is taken only if its values fit. Clicks are not in doubt beside random rows.
    """
    found = {role for role, name in roles.items() if wanted.get(role) is None}
    unsure = {role for role in found if form_of(roles[role]) in _DOUBTFUL}
    alone = "random" in wanted and not ({"random"} & (roles.keys() - unsure))
    if "clicked" in found and alone and form_of(roles["clicked"]) in _OFTEN_LABELS:
        unsure.add("clicked")
    return unsure


def is_quantity(name: str) -> bool:
    """Tell whether a column's name is one of quantities."""
    return form_of(name) in _QUANTITIES.split()


def is_usual(role: str, name: str) -> bool:
    """Tell whether a column's name is one that a role often has, or simply 'id'."""
    return form_of(name) in ("id", *_ALIASES[role].split())


def form_of(name: str) -> str:
    """Return a name in lower case, without what is neither a letter nor a digit."""
    return "".join(filter(str.isalnum, name.lower()))


def _missing(role: str, name: str | None, available: Sequence[str]) -> str:
    """Return the sentence for a column that is not there, with the nearest that is."""
    shown = ", ".join(f"'{column}'" for column in available[:12])
    more = f" and {len(available) - 12:,} more" if len(available) > 12 else ""
    if role == "clicked" and name is None:
        return (
            "random rows must say in a column 'clicked' whether the user clicked (1) or not (0); "
            f"found the columns {shown}{more}; name the column clicked, click, is_click or label, "
            "or say which it is with --clicked"
        )
    nearest = difflib.get_close_matches(name or role, available, n=1, cutoff=0.5)
    wanted = f"a column '{name}' for the {role}" if name else f"a column for the {role}"
    advice = f"name it with {role}='{nearest[0]}'" if nearest else f"name it with {role}=…"
    advice += f", on the command line with --{role}"
    meant = f"did you mean '{nearest[0]}'" if name and nearest else advice
    return f"the table must have {wanted}; found the columns {shown}{more}; {meant}"
