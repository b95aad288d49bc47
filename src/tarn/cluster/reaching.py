"""Whether the master of a running cluster can be reached from this machine, and how."""

import contextlib
import http.client
import socket
import ssl
from collections.abc import Iterator
from urllib.parse import SplitResult, urlsplit

import attrs

from tarn.clock import Skew, skew, skewed
from tarn.cluster.environment import ClusterEnvironment
from tarn.cluster.link import Link
from tarn.cluster.master_trust import trust
from tarn.errors import NotAuthorizedError, TarnError
from tarn.follow import Trust
from tarn.interfaces import CheckResult, Clock, Finding
from tarn.plain import pasted

__all__ = ["reach"]

WITHIN_S = 5.0
"""For the connection, and for the answer."""


@attrs.frozen
class _DirectAnswer:
    """What came of one question straight to the master."""

    trouble: str = ""
    """Why there was no answer; empty where there was one."""
    off: Skew | None = None
    """How far the clock of the master's machine is off; None where it did not say."""


def reach(link: Link, around: ClusterEnvironment, within_s: float = WITHIN_S) -> CheckResult:
    """Look whether the master answers: straight, or through the runtime's proxy alone."""
    ref = link.find()
    if ref is None:
        return CheckResult(f"no cluster '{link.name}' runs, so there is no master to reach")
    if ref.url is None:
        return CheckResult(f"no master of '{link.name}' is at work", known=False)
    place = urlsplit(ref.url)
    known = trust(around.paths.cluster(link.name), ref.url)
    heard = _ask(_line(place, known, within_s), around.clock, within_s)
    found: list[Finding] = []
    if heard.off is not None:
        found += filter(None, [skewed(f"machine of the master {place.hostname}", heard.off)])
    if heard.trouble:
        found += _around(link, place, heard.trouble)
    return CheckResult("" if found else f"{ref.url} answers", tuple(found))


def _line(place: SplitResult, known: Trust, within_s: float) -> http.client.HTTPConnection:
    host = place.hostname or ""
    if place.scheme != "https":
        return http.client.HTTPConnection(host, place.port, timeout=within_s)
    context = known.context()
    return http.client.HTTPSConnection(host, place.port, timeout=within_s, context=context)


def _ask(line: http.client.HTTPConnection, clock: Clock, within_s: float) -> _DirectAnswer:
    """Ask the master for its health, which it tells everybody."""
    asked_at = clock.at()
    with contextlib.closing(line):
        try:
            line.request("GET", "/health")
            date = line.getresponse().getheader("Date", "")
        except TimeoutError:
            return _DirectAnswer(f"no answer within {within_s:g} s")
        except socket.gaierror as error:
            return _DirectAnswer(f"the name '{line.host}' has no address ({error.strerror})")
        except ssl.SSLCertVerificationError as error:
            return _DirectAnswer(f"its certificate is not trusted ({error.verify_message})")
        except (OSError, http.client.HTTPException) as error:
            return _DirectAnswer(getattr(error, "strerror", None) or type(error).__name__)
    return _DirectAnswer(off=skew(date or "", asked_at, clock.at()))


def _around(link: Link, place: SplitResult, trouble: str) -> Iterator[Finding]:
    """Yield what is wrong where the master does not answer straight: the proxy may lead to it."""
    where, port = f"{place.scheme}://{place.netloc}", place.port or 80
    checks = (
        f"Check three things: `{pasted('getent', 'hosts', place.hostname)}` gives the right "
        f"address; `tarn logs -c {link.name}` shows that the master works; "
        f"`{pasted('nc', '-vz', place.hostname, port)}` connects. If it does not, have the "
        "firewall opened; api.port sets a fixed port"
    )
    try:
        link.ask(lambda api: api.status())
    except NotAuthorizedError as error:
        found = f"{trouble}; through the proxy {error.found}"
        yield Finding(error.code, where, found, f"{error.next_step.rstrip('.')}. {checks}")
    except TarnError as error:
        yield Finding("TARN-3605", where, f"{trouble}; {error.found}", checks)
    else:
        way = f"only the proxy {link.url} leads to the master"
        found = f"{trouble}; {way if link.proxied else f'it answers at {link.url}'}"
        yield Finding("TARN-3604", where, found, checks, fatal=False)
