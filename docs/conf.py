"""The site: Sphinx with MyST (pages in Markdown) and furo, built by `make docs`."""

import sys
from pathlib import Path

import pyhybrid

sys.path.insert(0, str(Path(__file__).parent / "_ext"))

project = "pyhybrid"
author = "the pyhybrid authors"
copyright = author
release = version = pyhybrid.__version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "generated"]
source_suffix = {".md": "markdown"}
exclude_patterns = ["_ext"]
nitpicky = False  # types of the standard library are not linked: that needs the network
myst_enable_extensions = ["deflist", "colon_fence"]
myst_heading_anchors = 3
autodoc_typehints = "signature"
autodoc_member_order = "bysource"
autodoc_preserve_defaults = True
default_role = "code"  # docstrings have `names` in single backticks
python_use_unqualified_type_names = True

html_theme = "furo"
html_title = f"pyhybrid {version}"
html_copy_source = False
html_show_sphinx = False
