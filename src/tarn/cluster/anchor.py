"""A link in HTML. Pure."""

from html import escape
from urllib.parse import urlsplit

__all__ = ["anchor"]


def anchor(url: str, words: str) -> str:
    """Return a link to *url* as HTML; *words* alone where it is not a web address."""
    if urlsplit(url).scheme not in ("http", "https"):
        return escape(words)
    to, said = escape(url, quote=True), escape(words)
    return f"<a href='{to}' target='_blank' rel='noopener noreferrer'>{said}</a>"
