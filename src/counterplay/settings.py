"""Settings put together from a file, options and assignments; what is wrong is one sentence."""

from __future__ import annotations

import difflib
import tomllib
from typing import TYPE_CHECKING, Any, TypeVar, cast, get_args

from pydantic import BaseModel, ValidationError

from counterplay.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from pathlib import Path

Settings = TypeVar("Settings", bound=BaseModel)
_EXPECTED = {  # by pydantic's kind of error, filled with what it says of it
    "greater_than_equal": "at least {ge:g}",
    "greater_than": "greater than {gt:g}",
    "less_than_equal": "at most {le:g}",
    "less_than": "less than {lt:g}",
    "too_short": "a list of at least {min_length}",
    "literal_error": "one of {expected}",
    "finite_number": "a finite number",
    "string_type": "a text",
    **dict.fromkeys(("int_type", "int_parsing", "int_from_float"), "a whole number"),
    **dict.fromkeys(("float_type", "float_parsing"), "a number"),
    **dict.fromkeys(("bool_type", "bool_parsing"), "true or false"),
    **dict.fromkeys(("tuple_type", "list_type"), "a list"),
    **dict.fromkeys(("datetime_parsing", "datetime_from_date_parsing"), "a date, as 2024-01-31"),
    **dict.fromkeys(("model_type", "dict_type"), "a section with keys"),
}


def configured(
    kind: type[Settings] | Callable[[dict[str, Any]], type[Settings]],
    file: Path | None = None,
    assignments: Iterable[str] = (),
    options: dict[str, Any] | None = None,
) -> Settings:
    """Put settings together: a TOML file, then options, then `section.key=value`.

    Which kind of settings they are may follow from the values.
    """
    values: dict[str, Any] = {}
    if file is not None:
        try:
            values = tomllib.loads(file.read_text(encoding="utf-8"))
        except (OSError, ValueError, RecursionError) as error:
            absent, deep = isinstance(error, FileNotFoundError), isinstance(error, RecursionError)
            found = "no file" if absent else "values nested too deep" if deep else str(error)
            raise ConfigError(
                f"a configuration must be a readable TOML file; found {found} at '{file}'; "
                "correct it, or name another"
            ) from None
    written = leaves(values)
    for key, value in (options or {}).items():
        if value is not None:
            _put(values, key, value)
    for assignment in assignments:
        key, sign, text = assignment.partition("=")
        if not sign:
            raise ConfigError(
                f"an assignment must have the form section.key=value; found '{assignment}'; "
                "correct it"
            )
        _put(values, key.strip(), _literal(text.strip()))
    wanted = cast("type[Settings]", kind) if isinstance(kind, type) else kind(values)
    try:
        return wanted.model_validate(values)
    except ValidationError as error:
        place = ".".join(str(part) for part in error.errors()[0]["loc"])
        said = any(f"{key}.".startswith(f"{place}.") for key in written)
        where = f" in '{file}'" if said else ""
        raise ConfigError(_sentence(error, wanted, where)) from None


def _put(values: dict[str, Any], key: str, value: object) -> None:
    *sections, last = key.split(".")
    for section in sections:
        values = values.setdefault(section, {})
        if not isinstance(values, dict):
            raise ConfigError(
                f"a section must hold keys; found '{section}' in '{key}' to be a value; correct it"
            )
    known = values.get(last)
    values[last] = known | value if isinstance(known, dict) and isinstance(value, dict) else value


def _literal(text: str) -> object:
    """Read a value as TOML would; what is none is text."""
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except (tomllib.TOMLDecodeError, RecursionError):
        return text


def _sentence(error: ValidationError, kind: type[BaseModel], where: str) -> str:
    """Say what is wrong with the first bad key, with the nearest known one."""
    first = error.errors()[0]
    place = ".".join(str(part) for part in first["loc"])
    cause = first.get("ctx", {}).get("error")
    if isinstance(cause, ConfigError):
        return str(cause)
    if first["type"] != "extra_forbidden":
        name = ".".join(str(part) for part in first["loc"] if isinstance(part, str))
        must = f"{name} must be {expected(first)}" if cause is None else str(cause)
        return f"{must}; found {name}={first['input']!r}{where}; correct it"
    model: Any = kind
    for part in first["loc"][:-1]:
        values = get_args(model)  # of a section with names of the user's own
        model = values[-1] if values else model.model_fields[part].annotation
    return (
        f"every setting must be a known one; found '{place}'{where}; "
        f"{_hint(str(first['loc'][-1]), model, kind)}"
    )


def expected(error: Any) -> str:
    """Say in plain words what pydantic expects instead of a value, of one of its errors."""
    words = _EXPECTED.get(error["type"])
    return words.format(**error.get("ctx", {})) if words else f"valid ({error['msg'].lower()})"


def _hint(name: str, section: type[BaseModel], kind: type[BaseModel]) -> str:
    """Name the same key of another section, else the nearest of this one, else all of this one."""
    known = list(section.model_fields)
    elsewhere = [
        f"{other}.{name}"
        for other, field in kind.model_fields.items()
        if name in getattr(field.annotation, "model_fields", ())
    ]
    nearest = elsewhere or difflib.get_close_matches(name, known, n=1)
    return f"did you mean '{nearest[0]}'" if nearest else f"known are {', '.join(known)}"


def leaves(values: Mapping[str, Any], above: str = "") -> dict[str, Any]:
    """Return nested values by the names that `section.key=value` has for them."""
    found: dict[str, Any] = {}
    for key, value in values.items():
        deeper = isinstance(value, dict) and value
        found |= leaves(value, f"{above}{key}.") if deeper else {f"{above}{key}": value}
    return found
