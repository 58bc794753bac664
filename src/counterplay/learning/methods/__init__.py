"""The methods of learning, by name; each is one file.

A method of your own is a class like `counterplay.learning.methods.erm.Erm`. In Python, enter it as
`METHODS["mine"] = Mine`; on the command line, give it as `my_module:Mine`.
"""

from __future__ import annotations

from difflib import get_close_matches
from importlib import import_module
from typing import TYPE_CHECKING, Any

from counterplay.errors import ConfigError

if TYPE_CHECKING:
    from counterplay.learning.config import Training
    from counterplay.learning.method import Method

METHODS: dict[str, str | type[Method[Any]]] = {  # names, so that torch is loaded only when used
    "erm": "counterplay.learning.methods.erm:Erm",
    "softmax": "counterplay.learning.methods.softmax:Softmax",
    "ps": "counterplay.learning.methods.ps:Ps",
    "acl": "counterplay.learning.methods.acl:Acl",
    "shown": "counterplay.learning.methods.shown:Shown",
    "ips": "counterplay.learning.methods.ips:Ips",
    "dro": "counterplay.learning.methods.dro:Dro",
    "rd": "counterplay.learning.methods.rd:Rd",
    "relmf": "counterplay.learning.methods.relmf:Relmf",
    "dr": "counterplay.learning.methods.dr:Dr",
}
ABOUT = {  # what a report says of a candidate; a method that is not here goes by its name
    "erm": "plain learning, in which every row counts alike",
    "softmax": "plain learning, each observed item against all others",
    "ps": "weights, which raise rows that an exposure model finds unlikely",
    "acl": "the game, against an exposure model that looks for the worst weights",
    "shown": "impressions: what users clicked among what they were shown",
    "ips": "weights by the inverse of the logged propensities",
    "dro": "robust learning, against the worst weights within a bound",
    "rd": "the worst weights within a factor of those of an exposure model",
    "relmf": "relevance, estimated from clicks divided by propensities",
    "dr": "ratings, with errors imputed where nobody rated and propensities where somebody did",
}
SETTINGS = {  # of `learning.config`, so that options are checked before torch is loaded; a method
    # that is not here says its own
    "erm": "Training",
    "softmax": "AmongAll",
    "ps": "Weighted",
    "acl": "Game",
    "shown": "FromShown",
    "ips": "Inverse",
    "dro": "Robust",
    "rd": "Bounded",
    "relmf": "Relevance",
    "dr": "Joint",
}
# Players that a method makes itself; others are given.
MADE = ("link", "examination", "item_losses", "benchmark")


def known(name: str) -> str:
    """Return the name of a method, or the place of one's own; refuse another one."""
    if not isinstance(METHODS.get(name), str):
        method_of(name)
    return name


def settings_of(name: str) -> type[Training]:
    """Return the kind of settings that a method has."""
    if not (isinstance(METHODS.get(name), str) and name in SETTINGS):
        return method_of(name).settings
    from counterplay.learning import config

    kind: type[Training] = getattr(config, SETTINGS[name])
    return kind


def method_of(name: str) -> type[Method[Any]]:
    """Return a method by its name, or by its place as `module:name`."""
    found = METHODS.get(name, name)
    if not isinstance(found, str):
        return found
    module, _, attribute = found.partition(":")
    if not attribute:
        near = get_close_matches(name, METHODS, n=1)
        advice = f"did you mean '{near[0]}'" if near else "choose one of them"
        raise ConfigError(
            f"a method must be one of {', '.join(METHODS)}, or your own as module:name; found "
            f"'{name}'; {advice}"
        )
    try:
        kind: Any = getattr(import_module(module), attribute)
    except (Exception, SystemExit) as error:  # whatever another's module does when it is imported
        raise ConfigError(
            f"a method of your own must be importable; found '{name}' ({type(error).__name__}: "
            f"{error}); check its module, its name, and PYTHONPATH"
        ) from None
    from counterplay.learning.config import Training
    from counterplay.learning.method import Method

    wrong, settings = "", getattr(kind, "settings", None)
    if not (isinstance(kind, type) and issubclass(kind, Method)):
        wrong = "be a subclass of counterplay.learning.method.Method"
    elif not (isinstance(settings, type) and issubclass(settings, Training)):
        wrong = "have settings that are a subclass of counterplay.learning.config.Training"
    elif kind.step is Method.step:
        wrong = "have a step"
    if wrong:
        raise ConfigError(f"a method must {wrong}; found '{name}', which does not; correct it")
    chosen: type[Method[Any]] = kind
    return chosen
