"""Check whether this machine reaches a cluster's API and metrics."""

import contextlib
import http.client
import socket
import ssl
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import SplitResult, urlsplit

from tarn.clock import Skew, skew, skewed
from tarn.cluster.entries import trust
from tarn.cluster.environment import ClusterEnvironment
from tarn.cluster.link import Link
from tarn.errors import NotAuthorizedError, TarnError, TimedOutError, UnreachableError
from tarn.interfaces import CheckResult, Clock, Finding
from tarn.plain import pasted

__all__ = ["reach", "scrapable"]

# For connecting, and again for the answer.
WITHIN_S = 5.0
# For one instance's metrics, which Triton renders within milliseconds.
METRICS_WITHIN_S = 2.0
# Every master exports this metric: without it, another program answered.
_SURE = "tarn_target_containers"
# Instances asked at the same time, at all, and named in the finding: a doctor's check is short.
_AT_ONCE, _MOST, _NAMED = 8, 40, 3


def reach(link: Link, around: ClusterEnvironment, within_s: float = WITHIN_S) -> CheckResult:
    """Check whether the master answers directly, or only through the runtime's proxy."""
    ref = link.find()
    if ref is None:
        return CheckResult(f"no cluster '{link.name}' runs, so there is no master to reach")
    if ref.url is None:
        return CheckResult(f"no master of '{link.name}' is at work", known=False)
    place = urlsplit(ref.url)
    known = trust(around.paths.cluster(link.name), ref.url)
    if place.scheme == "https":
        line: http.client.HTTPConnection = http.client.HTTPSConnection(
            place.hostname or "", place.port, timeout=within_s, context=known.context()
        )
    else:
        line = http.client.HTTPConnection(place.hostname or "", place.port, timeout=within_s)
    trouble, off = _ask(line, around.clock, within_s)
    found: list[Finding] = []
    if off is not None:
        found += filter(None, [skewed(f"machine of the master {place.hostname}", off)])
    if trouble:
        found += _around(link, place, trouble)
    return CheckResult("" if found else f"{ref.url} answers", tuple(found))


def _ask(
    line: http.client.HTTPConnection, clock: Clock, within_s: float
) -> tuple[str, Skew | None]:
    """Ask for ``/health``, which needs no access.

    Returns:
        Why there was no answer ('' if there was one), and how far the clock of the master's
        machine is off (None: unknown).
    """
    asked_at = clock.at()
    with contextlib.closing(line):
        try:
            line.request("GET", "/health")
            date = line.getresponse().getheader("Date", "")
        except TimeoutError:
            return f"no answer within {within_s:g} s", None
        except socket.gaierror as error:
            return f"the name '{line.host}' has no address ({error.strerror})", None
        except ssl.SSLCertVerificationError as error:
            return f"its certificate is not trusted ({error.verify_message})", None
        except (OSError, http.client.HTTPException) as error:
            return getattr(error, "strerror", None) or type(error).__name__, None
    return "", skew(date or "", asked_at, clock.at())


def _around(link: Link, place: SplitResult, trouble: str) -> Iterator[Finding]:
    """Yield what is wrong where the master does not answer directly; try its proxy."""
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


def scrapable(link: Link, within_s: float = METRICS_WITHIN_S) -> CheckResult:
    """Check whether the master and each ready instance give this machine their metrics."""
    ref = link.find()
    if ref is None:
        return CheckResult(f"no cluster '{link.name}' runs, so there is nothing to measure")
    try:
        with contextlib.closing(link.open()) as api:
            text = api.text("/metrics")
            instances = api.instances()["instances"]
    except (UnreachableError, TimedOutError) as error:  # `reach` reports this as a finding
        return CheckResult(f"the master does not answer: {error.found}", known=False)
    except TarnError as error:
        step = error.next_step or "Give the api token, or run this where the cluster was started"
        return CheckResult("", (Finding("TARN-3845", f"{ref.url}/metrics", error.found, step),))
    if _SURE not in text:
        found = f"the answer has no {_SURE}, so it does not come from a master"
        step = "Check which program listens there"
        return CheckResult("", (Finding("TARN-3845", f"{ref.url}/metrics", found, step),))
    ready = [one for one in instances if one.get("state") == "ready" and one.get("metrics")]
    addresses = {str(one["id"]): str(one["metrics"]) for one in ready[:_MOST]}
    with ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="doctor-metrics") as pool:
        troubles = pool.map(lambda address: _trouble(address, within_s), addresses.values())
        asked = zip(addresses.items(), troubles, strict=True)
        silent = tuple((*place, trouble) for place, trouble in asked if trouble)
    series = sum(1 for line in text.splitlines() if line and not line.startswith("#"))
    if silent:
        return CheckResult("", (_unreached(silent, len(addresses)),))
    return CheckResult(f"{series} series of the master; {len(addresses)} instances give theirs")


def _trouble(address: str, within_s: float) -> str:
    """Return why *address* does not give its metrics, or ''."""
    line = http.client.HTTPConnection(address, timeout=within_s)
    with contextlib.closing(line):
        try:
            line.request("GET", "/metrics")
            status = line.getresponse().status
        except TimeoutError:
            return f"no answer within {within_s:g} s"
        except (OSError, http.client.HTTPException) as error:
            return getattr(error, "strerror", None) or type(error).__name__
    return "" if status == http.client.OK else f"it answers {status}"


def _unreached(silent: Sequence[tuple[str, str, str]], asked: int) -> Finding:
    named = "; ".join(f"{name} at {address}: {why}" for name, address, why in silent[:_NAMED])
    more = f"; and {len(silent) - _NAMED} more" if len(silent) > _NAMED else ""
    return Finding(
        "TARN-3846",
        "",
        f"{len(silent)} of {asked} instances do not give their metrics to this machine: "
        f"{named}{more}",
        "The master reaches them in its own way: `tarn status` shows what it sees. If a "
        "Prometheus scrapes Triton directly, open the metrics port to it",
        fatal=False,
    )
