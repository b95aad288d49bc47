"""The page at ``/``: what a person gets who follows the link of YARN's own pages. Pure.

Every link is relative, so that it works under whatever prefix a proxy has. The one thing that a
relative link cannot stand is a prefix without a slash at its end: the proxy of YARN takes such a
URL, and hands it on as ``/``. So who comes through the proxy gets the prefix as the page's base.
"""

from html import escape

from tarn.control.snapshot import Snapshot
from tarn.http.visibility import NOTHING, VisibilityFilter

__all__ = ["PAGES", "front"]

PAGES = (
    ("dashboard", "the dashboard: everything, to read and to act on"),
    ("instances", "the instances that serve, one per line"),
    ("health", "OK, or what is wrong"),
    ("livez", "whether the master works"),
    ("readyz", "whether it takes commands"),
    ("config", "the spec in force, secrets masked"),
    ("metrics", "for Prometheus"),
    ("alerts", "present and past problems, one per line"),
    ("api/v1/status", "everything, as JSON"),
    ("api/v1/instances", "the instances, as JSON"),
    ("api/v1/events", "what happened"),
    ("api/v1/decisions", "the last decisions about the size"),
    ("api/v1/scaling", "why the size is what it is"),
    ("api/v1/alerts", "present and past problems, with what to do, as JSON"),
    ("api/v1/history", "size, load and requests of the last three hours"),
    ("api/v1/usage", "what instances and models did in that time"),
)
"""Path, relative -> what it shows. No stream: a proxy would collect it without end."""


def front(now: Snapshot, base: str, hidden: VisibilityFilter = NOTHING) -> bytes:
    """Return the page as HTML.

    Args:
        now: What is shown of the cluster.
        base: The proxy's prefix (``/proxy/application_1_2``); empty: asked without a proxy.
        hidden: Which models are not named.
    """
    under = f'<base href="{escape(base.rstrip("/"))}/">\n' if base else ""
    rows = "".join(
        f'<li><a href="{escape(path)}">{escape(path)}</a> {escape(what)}</li>\n'
        for path, what in PAGES
    )
    return f"""\
<!doctype html>
<html lang="en">
<meta charset="utf-8">
{under}<title>TARN: {escape(now.name)}</title>
<h1>{escape(now.name)} is {escape(now.state.value)}</h1>
<p>{now.ready} of {now.desired} ready. {escape(hidden.text(now.reason))}</p>
<ul>
{rows}</ul>
</html>
""".encode()
