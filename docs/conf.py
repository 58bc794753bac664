"""How the site is built: `make docs`."""

import inspect
import json
import re
from pathlib import Path
from typing import Any

from pydantic import BaseModel
from sphinx.application import Sphinx

import counterplay
from counterplay.cli.init import choices, meanings

project = "counterplay"
author = "the counterplay maintainers"
version = release = counterplay.__version__
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
source_suffix = {".md": "markdown", ".ipynb": "markdown"}
exclude_patterns = ["_build"]
myst_heading_anchors = 3
html_theme = "furo"
html_title = "counterplay"
html_show_copyright = False
smartquotes = False  # options keep their two dashes
html_extra_path = ["_extra"]  # the example report, made by docs/make_report.py
add_module_names = False
autodoc_member_order = "alphabetical"
autodoc_preserve_defaults = True
autodoc_typehints = "signature"
autodoc_typehints_format = "short"
maximum_signature_line_length = 80
napoleon_use_ivar = True
napoleon_attr_annotations = False
python_use_unqualified_type_names = True

INCLUDED = re.compile(r"```\{include\} (\S+)\n```")


def as_markdown(app: Sphinx, page: str, source: list[str]) -> None:
    """Read notebooks as pages; put in what a page includes; let links stay in the site."""
    path = Path(app.env.doc2path(page))
    if path.suffix == ".ipynb":
        cells = json.loads(source[0])["cells"]
        texts = [("".join(cell["source"]), cell["cell_type"] == "code") for cell in cells]
        source[0] = "\n\n".join(f"```python\n{text}\n```" if code else text for text, code in texts)
    text = INCLUDED.sub(lambda found: (path.parent / found[1]).read_text("utf-8"), source[0])
    for outside, inside in (
        ("reproduction/results/", "/measured/"),
        ("benchmarks/results/README.md", "/measured/benchmarks.md"),
        ("docs/", "/"),
    ):
        text = re.sub(rf"\]\((?:\.\./)*{outside}", f"]({inside}", text)
    source[0] = text


def is_settings(value: object) -> bool:
    """Tell settings and records, whose fields are listed with their meaning, from other classes."""
    return inspect.isclass(value) and issubclass(value, BaseModel)


def without_signature(_: Sphinx, _kind: str, _name: str, value: object, *_others: Any) -> Any:
    """Leave out the signature of settings: their fields say it better."""
    return ("", None) if is_settings(value) else None


def with_fields(
    _: Sphinx, _kind: str, _name: str, value: Any, _options: Any, lines: list[str]
) -> None:
    """List the fields of settings with their meanings and defaults."""
    if not is_settings(value):
        return
    text, _, _ = inspect.cleandoc(value.__doc__ or "").partition("\n\nAttributes:\n")
    lines[:] = [*text.splitlines(), ""]
    said = meanings(value)
    for name, field in value.model_fields.items():
        default = field.get_default()
        shown = (
            ""
            if field.is_required() or is_settings(type(default))
            else f" Default: ``{default!r}``."
        )
        lines.append(f":ivar {name}: {said.get(name, '')}{choices(field.annotation)}{shown}")


def setup(app: Sphinx) -> None:
    """Connect what this site does of its own."""
    app.connect("source-read", as_markdown)
    app.connect("autodoc-process-signature", without_signature)
    app.connect("autodoc-process-docstring", with_fields)
