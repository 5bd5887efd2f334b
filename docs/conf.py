"""Settings of the site: `make docs` builds it from the Markdown pages of the repository and the docstrings."""

from __future__ import annotations

from pathlib import Path

from sphinx.application import Sphinx

from displace import __version__

project = "displace"
author = "The displace authors"
project_copyright = "2026, The displace authors"
version = release = __version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx.ext.viewcode"]
root_doc = "docs/index"
# The source is the whole repository, so that links lead where they lead there.
include_patterns = ["*.md", "docs/*.md"]

myst_enable_extensions = ["deflist"]
myst_heading_anchors = 3
suppress_warnings = ["myst.header"]  # a page may start below the first level

autodoc_member_order = "bysource"
autodoc_typehints = "none"  # the docstrings say types and shapes
napoleon_google_docstring = False
napoleon_use_rtype = False

html_theme = "furo"
html_static_path, html_css_files = ["site.css"], ["site.css"]
html_title = f"displace {__version__}"


def setup(app: Sphinx) -> None:
    """Leave what scikit-learn documents to scikit-learn, and put a first page at the top that leads to the index."""
    app.connect("autodoc-skip-member", _is_of_scikit_learn)
    app.connect("build-finished", _write_first_page)


def _is_of_scikit_learn(app: Sphinx, what: str, name: str, obj: object, *_: object) -> bool | None:
    return True if (getattr(obj, "__module__", None) or "").startswith("sklearn.") else None


def _write_first_page(app: Sphinx, error: Exception | None) -> None:
    if error is None and app.builder.format == "html":
        page = '<!doctype html><title>displace</title><meta http-equiv="refresh" content="0; url=docs/index.html">\n'
        Path(app.outdir, "index.html").write_text(page, encoding="utf-8")
