"""The site: Sphinx with MyST (pages in Markdown) and its book theme, built by `make docs`."""

import os
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

html_theme = "sphinx_book_theme"
html_title = f"pyhybrid {version}"
html_copy_source = False
html_show_sphinx = False
html_sidebars = {"**": ["sbt-sidebar-nav"]}
html_theme_options = {
    "navbar_start": ["navbar-logo"],
    "navbar_persistent": ["search-button-field"],
    "use_download_button": False,
    "use_fullscreen_button": False,
}

site_name = os.environ.get(
    "PYHYBRID_SITE_NAME", ""
)  # one version of several: scripts/docs.sh --site
if site_name:
    html_theme_options |= {
        "navbar_end": ["version-switcher"],
        # What others there are is read when a page is opened, so an old page knows of new ones.
        "switcher": {"json_url": "../versions.json", "version_match": site_name},
        "check_switcher": False,
        "show_version_warning_banner": True,
    }
