"""One page out of its parts. Pure, but for reading the parts out of the package."""

import base64
import hashlib
import importlib.resources

import attrs

__all__ = ["SCRIPTS", "Page", "assemble", "read_page"]

SCRIPTS = (
    *("elements", "words", "storage", "session", "requests", "live"),
    *("lanes", "charts", "tables", "dialogs", "actions"),
    *("head", "alerts", "instances", "logs", "hours", "models"),
    *("happenings", "size", "followers", "signing", "theme", "start"),
)
"""Names of the scripts, in the order in which they are joined: each uses those before it."""

_STYLE, _SCRIPT = "/*STYLE*/", "/*SCRIPT*/"
"""Where the parts go in ``page.html``."""
_SIGN_IN = '<body data-proof="any">', '<body data-proof="session">'
"""As it stands there, and where nothing but a session proves who looks."""


@attrs.frozen
class Page:
    """The page as it is sent."""

    html: bytes
    policy: str
    """Its ``Content-Security-Policy``: its own style and script run, and nothing else does."""


def assemble(html: str, style: str, script: str) -> Page:
    """Return the page of *html* with *style* and *script* in their places.

    A part that would end its own element is an ``AssertionError``: it is ours.
    """
    assert "</style" not in style.lower()
    assert "</script" not in script.lower()
    assert "<!--" not in script
    assert html.count(_STYLE) == html.count(_SCRIPT) == 1
    whole = html.replace(_STYLE, style).replace(_SCRIPT, script)
    policy = "; ".join(
        (
            "default-src 'none'",
            f"script-src '{_hash(script)}'",
            f"style-src '{_hash(style)}'",
            "connect-src 'self'",
            "img-src data:",
            "base-uri 'none'",
            "form-action 'none'",
            "frame-ancestors 'none'",
            # where a browser knows it, no text becomes markup or code, by any mistake of ours
            "require-trusted-types-for 'script'",
            "trusted-types 'none'",
        )
    )
    return Page(whole.encode(), policy)


def read_page(*, only_sessions: bool = False) -> Page:
    """Return the page of the parts that came with the package.

    With *only_sessions* it has people sign in at once: to ask who looks would be refused, and a
    browser writes each refusal into its console.
    """
    folder = importlib.resources.files(__package__)

    def text(name: str) -> str:
        return folder.joinpath(name).read_text("utf-8")

    script = "\n".join(text(f"{name}.js") for name in SCRIPTS)
    html = text("page.html")
    assert html.count(_SIGN_IN[0]) == 1
    return assemble(html.replace(*_SIGN_IN) if only_sessions else html, text("page.css"), script)


def _hash(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"
