"""Whether a Prometheus would get what it should: the master's metrics, and each Triton's own."""

import contextlib
import http.client
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from tarn.cluster.link import Link
from tarn.errors import TarnError, TimedOutError, UnreachableError
from tarn.interfaces import CheckResult, Finding

__all__ = ["scrapable"]

WITHIN_S = 2.0
"""For the answer of one instance: Triton gives its metrics in milliseconds."""
_SURE = "tarn_target_containers"
"""A name that a master's metrics always have."""
_AT_ONCE, _MOST, _NAMED = 8, 40, 3
"""Instances asked at the same time, asked at all, and named where they do not answer."""


def scrapable(link: Link, within_s: float = WITHIN_S) -> CheckResult:
    """Look whether the master gives its metrics to us, and each ready instance its own."""
    ref = link.find()
    if ref is None:
        return CheckResult(f"no cluster '{link.name}' runs, so there is nothing to measure")
    try:
        with contextlib.closing(link.open()) as api:
            text = api.text("/metrics")
            instances = api.instances()["instances"]
    except (UnreachableError, TimedOutError) as error:  # which is told as well
        return CheckResult(f"the master does not answer: {error.found}", known=False)
    except TarnError as error:
        step = error.next_step or "Give the api token, or run this where the cluster was started"
        return CheckResult("", (Finding("TARN-3845", f"{ref.url}/metrics", error.found, step),))
    if _SURE not in text:
        found = f"the answer has no {_SURE}, so it does not come from a master"
        step = "Check which program listens there"
        return CheckResult("", (Finding("TARN-3845", f"{ref.url}/metrics", found, step),))
    addresses = dict(_addresses(instances))
    silent = tuple(_silent(addresses, within_s))
    series = sum(1 for line in text.splitlines() if line and not line.startswith("#"))
    if silent:
        return CheckResult("", (_unreached(silent, len(addresses)),))
    return CheckResult(f"{series} series of the master; {len(addresses)} instances give theirs")


def _addresses(instances: Sequence[Mapping[str, Any]]) -> Iterator[tuple[str, str]]:
    """Yield id and address of each ready instance whose metrics have one, up to so many."""
    ready = [one for one in instances if one.get("state") == "ready" and one.get("metrics")]
    for one in ready[:_MOST]:
        yield str(one["id"]), str(one["metrics"])


def _silent(addresses: Mapping[str, str], within_s: float) -> Iterator[tuple[str, str, str]]:
    """Yield (id, address, trouble) of each instance that does not give its metrics."""
    with ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="doctor-metrics") as pool:
        troubles = pool.map(lambda address: _trouble(address, within_s), addresses.values())
        for (name, address), trouble in zip(addresses.items(), troubles, strict=True):
            if trouble:
                yield name, address, trouble


def _trouble(address: str, within_s: float) -> str:
    """Return why no metrics come from *address*; empty: they come."""
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
