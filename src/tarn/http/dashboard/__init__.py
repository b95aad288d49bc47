"""The page at ``/dashboard``: one answer with its styles and scripts, the same for everybody.

It contains nothing of the cluster, so it needs no right: the browser reads what it shows from the
API, with the rights of its user.
"""

import base64
import hashlib
import importlib.resources

import attrs
from starlette.requests import Request
from starlette.responses import Response

from tarn.http.answers import Endpoints

__all__ = ["SCRIPTS", "Dashboard", "Page", "assemble", "read_page"]

# The scripts, in the order in which they are joined: each uses those before it.
SCRIPTS = (
    *("elements", "words", "storage", "session", "requests", "live"),
    *("lanes", "charts", "tables", "dialogs", "actions"),
    *("head", "alerts", "instances", "logs", "hours", "models"),
    *("happenings", "size", "followers", "signing", "theme", "start"),
)

# Where the parts go in ``page.html``.
_STYLE, _SCRIPT = "/*STYLE*/", "/*SCRIPT*/"
# As in page.html, and if only a session can prove the user.
_SIGN_IN = '<body data-proof="any">', '<body data-proof="session">'


@attrs.frozen
class Page:
    """The page as it is sent."""

    html: bytes
    policy: str
    """Its ``Content-Security-Policy``: only its own style and script run."""


def assemble(html: str, style: str, script: str) -> Page:
    """Return the page of *html* with *style* and *script* in their places."""
    # A part must not end its own element.
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
            # in browsers that know it, no mistake of ours can turn text into markup or code
            "require-trusted-types-for 'script'",
            "trusted-types 'none'",
        )
    )
    return Page(whole.encode(), policy)


def read_page(*, only_sessions: bool = False) -> Page:
    """Return the page, read from the package.

    With *only_sessions* it asks for a sign-in at once. It would otherwise first send a request that
    is refused, which a browser shows as an error in its console.
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


@attrs.frozen(eq=False)
class Dashboard:
    """Serves the page, which is joined once, at the start."""

    page: Page

    def routes(self) -> Endpoints:
        """Return what answers each path."""
        return {"/dashboard": self.show}

    async def show(self, _request: Request) -> Response:
        """Answer the page, with its own policy in place of that of all other answers."""
        headers = {"Content-Security-Policy": self.page.policy}
        return Response(self.page.html, headers=headers, media_type="text/html")
