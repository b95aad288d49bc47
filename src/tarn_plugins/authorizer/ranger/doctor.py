"""What `tarn doctor` looks at: the site's configuration, the jars, and the way to Ranger Admin."""

import contextlib
import socket
from collections.abc import Iterator
from urllib.parse import urlsplit

from tarn.domain import ClusterSpec
from tarn.interfaces import Check, CheckResult, ClientContext, Finding
from tarn.plain import structure
from tarn_plugins.authorizer.ranger.settings import RangerSettings
from tarn_plugins.authorizer.ranger.site import PREFIX, examine, read

__all__ = ["checks"]

_CONNECT_S = 5.0


def checks(spec: ClusterSpec, _context: ClientContext) -> tuple[Check, ...]:
    """Return the checks; with options that are wrong there are none: reading the spec says so."""
    settings, _problems = structure(RangerSettings, dict(spec.authorizer.options))
    if settings is None:
        return ()
    here = spec.runtime.use == "local"
    return (
        Check(
            "Ranger's configuration and jars",
            "Without them the master denies every request.",
            lambda: _files(settings, here=here),
        ),
        Check(
            "Ranger Admin",
            "Policies come from there; while it does not answer, the last downloaded ones decide.",
            lambda: _admin(settings),
        ),
    )


def _files(settings: RangerSettings, *, here: bool) -> CheckResult:
    found = examine(settings)
    if here:
        return CheckResult(f"{settings.conf_dir} and Ranger's jars are there", found)
    if found:
        return CheckResult("they are not on this machine, but must be on each node", known=False)
    return CheckResult("they are on this machine, and must be on each node")


def _admin(settings: RangerSettings) -> CheckResult:
    if examine(settings):
        return CheckResult("its address is in a file that this machine does not have", known=False)
    urls = read(settings).security.get(f"{PREFIX}policy.rest.url", "")
    silent = [url for url in map(str.strip, urls.split(",")) if url and not _answers(url)]
    if not silent:
        return CheckResult(f"it can be reached at {urls}")
    where = f"{PREFIX}policy.rest.url"
    return CheckResult("", tuple(_away(where, silent)))


def _away(where: str, urls: list[str]) -> Iterator[Finding]:
    step = "Check the address, and that the network lets this machine through"
    for url in urls:
        yield Finding("TARN-3406", where, f"nobody answers at {url}", step, fatal=False)


def _answers(url: str) -> bool:
    parts = urlsplit(url)
    port = parts.port or (443 if parts.scheme == "https" else 80)
    with contextlib.suppress(OSError):
        socket.create_connection((parts.hostname or "", port), timeout=_CONNECT_S).close()
        return True
    return False
