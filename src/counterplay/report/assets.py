"""What the page carries with it: plotly, packed, and data that no text in them can break out of."""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
import math
from functools import lru_cache
from typing import Any

_ESCAPES = str.maketrans(
    {
        "<": "\\u003c",
        ">": "\\u003e",
        "&": "\\u0026",
        "\u2028": "\\u2028",
        "\u2029": "\\u2029",
    }
)


@lru_cache(maxsize=1)
def plotly() -> tuple[str, str]:
    """Return plotly's script, gzipped and in base64, and the hash of what it unpacks to."""
    from plotly.offline import get_plotlyjs  # type: ignore[import-untyped]

    source = get_plotlyjs().encode()
    return base64.b64encode(gzip.compress(source, mtime=0)).decode(), source_hash(source)


def source_hash(source: bytes) -> str:
    """Return the name by which a content security policy lets a script run."""
    return f"sha256-{base64.b64encode(hashlib.sha256(source).digest()).decode()}"


def embedded(value: Any) -> str:
    r"""Return JSON that may stand in a script element; numbers that JSON has not become null.

    Example:
        >>> embedded({"name": "</script>", "value": float("nan")})
        '{"name":"\\u003c/script\\u003e","value":null}'
    """
    shown = json.dumps(
        _finite(value), ensure_ascii=False, separators=(",", ":"), allow_nan=False, sort_keys=True
    )
    return shown.translate(_ESCAPES)


def _finite(value: Any) -> Any:
    match value:
        case dict():
            return {key: _finite(each) for key, each in value.items()}
        case list() | tuple():
            return [_finite(each) for each in value]
        case float() if not math.isfinite(value):
            return None
        case _:
            return value
