"""How the site is built: `make docs`."""

import counterplay

project = "counterplay"
author = "the counterplay maintainers"
version = release = counterplay.__version__
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
html_theme = "furo"
html_title = "counterplay"
exclude_patterns = ["_build"]
autodoc_member_order = "alphabetical"
autodoc_typehints = "signature"
napoleon_use_ivar = True
napoleon_attr_annotations = False
