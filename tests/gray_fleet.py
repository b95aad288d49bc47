"""A fleet of real Tritons behind a HAProxy, one of which falls sick under an open-loop load.

Who looks at it from outside: HAProxy's log says which server got which request and what became of
it, and each load counts what its callers got.
"""

import contextlib
import json
import os
import signal
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import attrs
import pytest
from asking import ask
from envoy_like import EnvoyLike, envoy_like, failed
from house import until
from proxied_load import MODEL, HttpLoad
from servers.haproxy import RenderedHaproxy

import tarn

__all__ = ["FaultOutcome", "GrayFleet", "staged"]

CODE = Path(__file__).with_name("sick_model.py")
CONFIG = """backend: "python"
max_batch_size: 0
input [{name: "IN" data_type: TYPE_INT32 dims: [1]}]
output [{name: "OUT" data_type: TYPE_INT32 dims: [1]}]
instance_group [{kind: KIND_CPU count: 1}]
"""

RATE = 100.0
"""Requests a second of each of two loads: through HAProxy, and by `cluster.client()`."""
THREADS = 64
BEFORE = 300
"""Requests of each that are answered before the fault."""
POLL_S = 0.1
AFTER_S = 5.0
"""For so long more one looks whether anybody is ejected after all."""


class ClientLoad(HttpLoad):
    """The same load by a client of the fleet, whose threads share it."""

    def __init__(self, client: Any, rate: float, threads: int) -> None:
        super().__init__("cluster.client()", rate, threads)
        self._shared = client

    def client(self) -> AbstractContextManager[Any]:
        return contextlib.nullcontext(self._shared)


@attrs.define
class FaultOutcome:
    """What was seen of one fault; seconds count from it, in the order in which things happen."""

    first_failure_s: float | None = None
    """HAProxy had the first bad answer from it."""
    out_s: float | None = None
    """The view had it no more."""
    last_sent_s: float | None = None
    """HAProxy sent it the last request."""
    replaced_s: float | None = None
    """Three others were in the view."""
    told_s: dict[str, float] = attrs.field(factory=dict)
    """Code of each trouble and event to when it was told."""
    told: dict[str, str] = attrs.field(factory=dict)
    """The same codes to what was said last."""
    lost: dict[str, int] = attrs.field(factory=dict)
    """Requests of each load that were not answered well."""
    sent: dict[str, int] = attrs.field(factory=dict)
    why: dict[str, int] = attrs.field(factory=dict)
    """How often each error was told to a caller."""
    envoy: EnvoyLike | None = None
    """What ejection after five bad answers in a row would have done with the same trace."""

    def __str__(self) -> str:
        losses = ", ".join(f"{self.lost[way]} of {self.sent[way]} by {way}" for way in self.lost)
        return (
            f"first failure after {_s(self.first_failure_s)}, out of the view after "
            f"{_s(self.out_s)}, last request after {_s(self.last_sent_s)}, replaced after "
            f"{_s(self.replaced_s)}; lost: {losses}; five in a row alone: {self.envoy}; {self.why}"
        )


class GrayFleet:
    """Three instances behind HAProxy; `strike` makes one of them sick, or all."""

    def __init__(self, cluster: tarn.Cluster, door: RenderedHaproxy) -> None:
        self.cluster, self.door = cluster, door

    def instances(self) -> list[dict[str, Any]]:
        """Return those that are alive, ``in_view`` marked."""
        found = list(self.cluster.status()["instances"])
        for one in found:
            ejected = one["unwell"] is not None and one["unwell"]["ejected"]
            one["in_view"] = one["state"] == "ready" and not one["suspect"] and not ejected
        return found

    def ready(self) -> set[str]:
        """Return who is in the view."""
        return {one["id"] for one in self.instances() if one["in_view"]}

    def settled(self) -> list[dict[str, Any]]:
        """Wait until three are in the view and in HAProxy, and there is nothing else."""

        def there() -> bool:
            found = self.instances()
            whole = len(found) == 3 and all(one["in_view"] for one in found)
            return whole and set(self.door.taking()) == {one["http"] for one in found}

        until(there, 90, "three instances")
        return self.instances()

    def strike(
        self, how: str, within_s: float, code: str = "", *, everywhere: bool = False
    ) -> FaultOutcome:
        """Return what is seen of a fault, under both loads, until its victim was replaced.

        Args:
            how: The fault, as the model knows it; or ``killed`` (its stub), ``stopped`` (Triton).
            within_s: For so long at most.
            code: Until this trouble is told, and `AFTER_S` more, instead.
            everywhere: All instances fall sick.
        """
        found = self.settled()
        victims = found if everywhere else found[:1]
        ids = {one["id"] for one in victims}
        servers = {self.door.taking()[one["http"]] for one in victims}
        seen = FaultOutcome()
        with self.cluster.client(answer_within_s=5.0) as client:
            loads = {
                "HAProxy": HttpLoad(self.door.address, RATE, THREADS),
                "client": ClientLoad(client, RATE, THREADS),
            }
            with contextlib.ExitStack() as running:
                for load in loads.values():
                    running.enter_context(load)
                for load in loads.values():
                    load.pass_(BEFORE)
                began, began_s = time.time(), time.monotonic()
                for one in victims:
                    self._fault(one, how)
                self._watch(ids, began_s, within_s, code, seen)
        for way, load in loads.items():
            seen.lost[way], seen.sent[way] = len(load.report.lost), load.report.sent
            for lost in load.report.lost:
                why = f"{way}: {lost.why[:90]}"
                seen.why[why] = seen.why.get(why, 0) + 1
        self._read_log(servers, began, seen)
        return seen

    def _watch(
        self, victims: set[str], began_s: float, within_s: float, code: str, seen: FaultOutcome
    ) -> None:
        while (now_s := time.monotonic() - began_s) < within_s:
            ready = self.ready()
            if seen.out_s is None and not ready & victims:
                seen.out_s = now_s
            if seen.replaced_s is None and len(ready - victims) >= 3:
                seen.replaced_s = now_s
            for one in (*self.cluster.status()["troubles"], *self.cluster.events()[-9:]):
                seen.told_s.setdefault(one["code"], now_s)
                seen.told[one["code"]] = one["message"]
            ended_s = seen.told_s.get(code, within_s) + AFTER_S if code else seen.replaced_s
            if ended_s is not None and now_s >= ended_s:
                return
            threading.Event().wait(POLL_S)

    def _read_log(self, servers: set[str], began: float, seen: FaultOutcome) -> None:
        """Take from HAProxy's log what it sent to the victims after the fault."""
        lines = [line for line in self.door.lines() if line.ended >= began]
        theirs = [line for line in lines if line.server in servers]
        bad = [line.ended for line in theirs if failed(line)]
        seen.first_failure_s = min(bad) - began if bad else None
        seen.last_sent_s = max((line.sent for line in theirs), default=began) - began
        if len(servers) == 1:
            seen.envoy = envoy_like(theirs, *servers, began)

    def _fault(self, victim: dict[str, Any], how: str) -> None:
        if how == "killed":
            for stub in stubs(int(victim["container_id"])):
                os.kill(stub, signal.SIGKILL)
        elif how == "stopped":
            os.kill(int(victim["container_id"]), signal.SIGSTOP)
        else:
            threading.Thread(target=self.sicken, args=(victim, how), daemon=True).start()

    @staticmethod
    def sicken(victim: dict[str, Any], how: str) -> None:
        """Send *victim* itself the request after which it is sick, or well again."""
        tensor = {"name": "IN", "datatype": "INT32", "shape": [1], "data": [0]}
        body = json.dumps({"inputs": [tensor], "parameters": {"sick": how}}).encode()
        with contextlib.suppress(OSError):  # one that hangs never answers
            ask(int(victim["http"].rpartition(":")[2]), "POST", f"/v2/models/{MODEL}/infer", body)


@contextlib.contextmanager
def staged(root: Path, unwell: Mapping[str, Any]) -> Iterator[GrayFleet]:
    """Run a fleet of three Tritons behind a HAProxy; all they write is below *root*.

    Args:
        root: An empty directory.
        unwell: The spec's ``instance.unwell``.
    """
    version = root / "models" / MODEL / "1"
    version.mkdir(parents=True)
    (version / "model.py").write_text(CODE.read_text())
    (version.parent / "config.pbtxt").write_text(CONFIG)
    with pytest.MonkeyPatch.context() as patch, RenderedHaproxy(root, "gray", grpc=False) as door:
        patch.setenv("TARN_HOME", str(root))
        options = {"socket": str(door.socket)}
        spec = {
            "name": "gray",
            "models": {"repository": str(root / "models")},
            "replicas": {"min": 3, "max": 3},
            "instance": {"unready_after": "2s", "replace_after": "10s", "unwell": dict(unwell)},
            "drain": {"timeout": "30s", "quiesce": "500ms"},
            "triton": {"exit_timeout": "3s"},  # what hangs in the end holds up no test
            "discovery": [{"use": "haproxy", "required": True, "options": options}],
        }
        with tarn.Cluster(spec) as running:
            running.wait(ready=3, timeout="60s")
            yield GrayFleet(running, door)


def stubs(pid: int) -> list[int]:
    """Return the processes of Python models below the Triton *pid*."""
    found = []
    for task in Path(f"/proc/{pid}/task").iterdir():
        for child in (task / "children").read_text().split():
            argv = Path(f"/proc/{child}/cmdline").read_bytes()
            if argv.split(b"\0")[0].endswith(b"triton_python_backend_stub"):
                found.append(int(child))
    return found


def _s(seconds: float | None) -> str:
    return "…" if seconds is None else f"{seconds:.1f} s"
