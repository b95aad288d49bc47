"""Sphinx: `nox -s documentation`; warnings are errors."""

from pygments.lexers.special import TextLexer
from sphinx.application import Sphinx

project = "TARN"
copyright = "TARN contributors"  # noqa: A001 (Sphinx's name)
extensions = ["myst_parser"]
myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 3
exclude_patterns = ["_build"]
html_theme = "furo"
html_title = "TARN"


def setup(app: Sphinx) -> None:
    """Show a haproxy.cfg as it is: no lexer knows one."""
    app.add_lexer("haproxy", TextLexer)
