"""A runtime, its deployer and its master's API in memory, for tests of the client side."""

import copy
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import attrs

from tarn import plugins
from tarn.cluster import ClusterEnvironment
from tarn.domain import ClusterSpec, Endpoint, Epoch
from tarn.errors import RefusedError, TarnError, UnreachableError
from tarn.follow import FleetCall, Message
from tarn.hookspecs import Factory, RuntimeFactory, StorageFactory, hookimpl
from tarn.interfaces import (
    ClientContext,
    ClusterRef,
    Ending,
    Finding,
    LaunchPlan,
    RuntimeCapabilities,
    Staged,
)

API_TOKEN = "s3cret-api-token-that-nobody-may-see"
URL = "http://127.0.0.1:40001"


@attrs.frozen
class NoSettings:
    """A fake needs none."""


def instance(number: int, state: str = "ready", **more: Any) -> dict[str, Any]:
    endpoint = Endpoint("127.0.0.1", 41000 + number, 42000 + number, 43000 + number)
    return {
        "id": f"demo-{number:04}",
        "state": state,
        "suspect": "",
        "reason": "",
        "node": None,
        "container_id": str(number),
        "spec_hash": "abc",
        "age_s": 75.0,
        "state_for_s": 75.0,
        "waits": None,
        "http": endpoint.http,
        "grpc": endpoint.grpc,
        "metrics": endpoint.metrics,
        "models": [{"name": "echo", "state": "READY", "reason": ""}],
        "busy": 0,
        **more,
    }


def holds(**more: Any) -> dict[str, Any]:
    return {
        "halted": "",
        "failures_in_a_row": 0,
        "retry_in_s": None,
        "frozen_for_s": None,
        "thaws_in_s": None,
        "cooldown_in_s": None,
        "policy": {"use": "fixed", "wanted": None, "reason": "keeps the size"},
        "size": {"sentence": "2 replicas.", "allowed": 2, "held": [], "next": None},
        **more,
    }


def scaling(**more: Any) -> dict[str, Any]:
    """Return the answer of ``GET /api/v1/scaling``: a shrink waits for its window."""
    signal = {"name": "in_flight", "value": 3.0, "unit": "requests", "age_s": 0.4}
    unknown = {"name": "gpu_utilization", "value": None, "unit": "fraction", "age_s": None}
    of = {"source": "metrics of 2 instances", "reason": "", "read": True}
    held = {"by": "down_window", "reason": "a wish for 2 in the last 300 s", "left_s": 180.0}
    decision = {"at": 1.8e9, "wanted": 9, "desired": 2, "by": "policy target"}
    return {
        "name": "demo",
        "at": 1_800_000_000.0,
        "stale": False,
        "sentence": "2 replicas; policy target wants 1: in_flight is 3; it shrinks to 1 in 180 s.",
        "policy": "target",
        "desired": 2,
        "ready": 2,
        "wanted": 1,
        "allowed": 1,
        "reason": "in_flight is 3",
        "held": [held],
        "next": {"replicas": 1, "in_s": 180.0, "words": "shrinks to 1 in 180 s"},
        "manual": None,
        "limits": {"min": 1, "max": 5, "ceiling": None, "ceiling_reason": ""},
        "pause": None,
        "cooldown_s": 60.0,
        "windows": {"up_s": 0.0, "down_s": 300.0},
        "signals": [
            {**signal, **of},
            {**unknown, **of, "reason": "2 of 2 instances did not say", "read": False},
        ],
        "decisions": [{**decision, "reason": "in_flight is 50", "held_back": "limits 1 to 2"}],
        **more,
    }


def status(state: str = "ready", instances: tuple[dict[str, Any], ...] = (), **more: Any) -> Any:
    shown = instances or (instance(1), instance(2))
    return {
        "name": "demo",
        "runtime": "fake",
        "state": state,
        "reason": "",
        "epoch": "1000-1",
        "spec_revision": 1,
        "view_revision": 3,
        "desired": len(shown),
        "ready": sum(item["state"] == "ready" for item in shown),
        "manual": None,
        "limits": {"min": 1, "max": 5, "ceiling": None, "ceiling_reason": ""},
        "pause": None,
        "at": 1_800_000_000.0,
        "stale": False,
        "instances": list(shown),
        "ended": [],
        "followers": [],
        "warnings": [],
        "faults": [],
        "troubles": [],
        "holds": holds(),
        **more,
    }


class FakeClock:
    """Moves only when somebody rests."""

    def __init__(self) -> None:
        self.time_s = 100.0

    def now_s(self) -> float:
        return self.time_s

    def at(self) -> float:
        return 1_800_000_000.0 + self.time_s


class FakeApi:
    """Answers as the master of the fleet; every command is kept."""

    lack = ""

    def __init__(self, fleet: "FakeFleet", url: str, api_token: str | None) -> None:
        self.fleet, self.url, self.api_token = fleet, url, api_token

    def close(self) -> None:
        """Nothing is open."""

    def _ask(self) -> None:
        error = self.fleet.answers.get(
            self.url, UnreachableError("nothing listens", where=self.url)
        )
        if error is not None:
            raise error

    def status(self) -> Any:
        self._ask()
        if len(self.fleet.statuses) > 1:
            return self.fleet.statuses.pop(0)
        return copy.deepcopy(self.fleet.statuses[0])

    def cluster(self) -> str:
        self._ask()
        return self.fleet.names.get(self.url, "demo")

    def events(self) -> list[dict[str, Any]]:
        self._ask()
        return self.fleet.events

    def decisions(self) -> list[dict[str, Any]]:
        self._ask()
        return []

    def scaling(self) -> Any:
        self._ask()
        return copy.deepcopy(self.fleet.scaling)

    def instances(self) -> Any:
        return {"instances": self.status()["instances"]}

    def get(self, path: str) -> Any:
        self._ask()
        return {"path": path}

    def text(self, path: str) -> str:
        self._ask()
        return f'# TYPE tarn_asked gauge\ntarn_asked{{path="{path}"}} 1\ntarn_odd NaN\n'

    def stream(
        self, path: str, last_id: str | None, stop: Any, *, give_up_s: float
    ) -> Iterator[Message]:
        self._ask()
        self.fleet.asked.append(("stream", path, last_id))
        yield from self.fleet.stream
        stop.set()

    def _command(self, *command: object) -> dict[str, Any]:
        self._ask()
        if self.fleet.refusal is not None:
            raise self.fleet.refusal
        self.fleet.asked.append(command)
        return {"spec_revision": 2, "message": f"{command[0]} is done"}

    def scale(self, replicas: int | None) -> dict[str, Any]:
        return self._command("scale", replicas)

    def adapt(self, low: int | None, high: int | None) -> dict[str, Any]:
        return self._command("adapt", low, high)

    def pause(self, for_s: float, reason: str) -> dict[str, Any]:
        return self._command("pause", for_s, reason)

    def resume(self) -> dict[str, Any]:
        return self._command("resume")

    def drain(self, instance_id: str, *, now: bool = False) -> dict[str, Any]:
        return self._command("drain", instance_id, *(["now"] if now else []))

    def call_all(self, call: FleetCall) -> dict[str, Any]:
        return {**self._command(call.verb, dict(call.body)), "call": 1}

    def control(self, call: int | None = None) -> dict[str, Any]:
        return self.fleet.control

    def link(self) -> dict[str, Any]:
        return {**self._command("link"), "code": "c0de", "expires_in_s": 60}

    def down(self) -> dict[str, Any]:
        done = self._command("down")
        self.fleet.gone_after = self.fleet.gone_after or 2
        return done


@attrs.define
class FakeFleet:
    """The world that deployer and API see, and what was asked of it."""

    home: Path
    environ: dict[str, str] = attrs.field(factory=dict)
    findings: tuple[Finding, ...] = ()
    statuses: list[Any] = attrs.field(factory=lambda: [status()])
    events: list[dict[str, Any]] = attrs.field(factory=list)
    scaling: dict[str, Any] = attrs.field(factory=scaling)
    stream: list[Message] = attrs.field(factory=list)
    answers: dict[str, TarnError | None] = attrs.field(factory=lambda: {URL: None})
    """URL to what it raises; None: it answers."""
    names: dict[str, str] = attrs.field(factory=dict)
    """URL to the cluster whose master answers there; else it is ``demo``."""
    ref: ClusterRef | None = None
    refusal: TarnError | None = None
    asked: list[tuple[object, ...]] = attrs.field(factory=list)
    gone_after: int = 0
    """After so many more looks nothing is found any more; 0: it stays."""
    faster: Callable[[], None] | None = None
    """What another `up` does between our look and our submit."""
    lines: list[str] = attrs.field(factory=list)
    others: dict[str, list[str]] = attrs.field(factory=dict)
    """Instance id to its own log; every other one, and the master's, has `lines`."""
    clock: FakeClock = attrs.field(factory=FakeClock)
    master_url: str | None = URL
    capabilities: RuntimeCapabilities = attrs.field(factory=RuntimeCapabilities)
    ending: Ending | None = None
    control: dict[str, Any] = attrs.field(factory=lambda: {"calls": [], "over": []})
    plugins: list[object] = attrs.field(factory=list)
    """Besides the fake one."""

    @property
    def environment(self) -> ClusterEnvironment:
        def rest(seconds: float) -> None:
            self.clock.time_s += seconds

        return ClusterEnvironment(
            {"TARN_HOME": str(self.home), "HOME": str(self.home), **self.environ},
            lambda: plugins.load([FakePlugin(self), *self.plugins], points=()),
            lambda url, api_token, _trust: FakeApi(self, url, api_token),  # type: ignore[arg-type, return-value]
            self.clock,
            rest,
        )

    @property
    def directory(self) -> Path:
        return self.home / "clusters" / "demo"

    def run(self, files: Mapping[str, bytes]) -> ClusterRef:
        """Do what a deployer does when a master comes up."""
        self.directory.mkdir(parents=True, exist_ok=True)
        for name, data in files.items():
            (self.directory / name).write_bytes(data)
        url = f'"{self.master_url}"' if self.master_url else "null"
        (self.directory / "ref.json").write_text(
            f'{{"name": "demo", "runtime": "fake", "url": {url}, "started_at": 1800000000.0}}'
        )
        self.ref = ClusterRef("demo", "fake", Epoch(1000, 1), self.master_url, started_at=1.8e9)
        return self.ref

    def check(self, spec: ClusterSpec) -> tuple[Finding, ...]:
        self.asked.append(("check", spec.name))
        return self.findings

    def plan(self, spec: ClusterSpec, staged: Staged) -> LaunchPlan:
        self.asked.append(("plan", spec.name))
        command = ("tritonserver", f"--model-repository={staged.location}", "--http-port=free")
        return LaunchPlan((command,), dict(spec.triton.env), {"cluster": str(self.directory)})

    def submit(self, spec: ClusterSpec, staged: Staged, files: Mapping[str, bytes]) -> ClusterRef:
        if self.faster is not None:
            self.faster()
            raise RefusedError("one of this name runs")
        self.asked.append(("submit", spec, staged, dict(files)))
        return self.run(files)

    def find(self, name: str) -> ClusterRef | None:
        if self.gone_after:
            self.gone_after -= 1
            if not self.gone_after:
                self.vanish()
        return self.ref if self.ref is not None and self.ref.name == name else None

    def ended(self, name: str) -> Ending | None:
        return self.ending

    def vanish(self) -> None:
        self.ref = None
        (self.directory / "ref.json").unlink(missing_ok=True)

    def end(self, ref: ClusterRef) -> None:
        self.asked.append(("end", ref.name))
        self.vanish()

    def logs(self, ref: ClusterRef, instance_id: str, tail: int | None) -> Iterator[str]:
        self.asked.append(("logs", instance_id, tail))
        lines = self.others.get(instance_id, self.lines)
        yield from lines if tail is None else lines[len(lines) - min(tail, len(lines)) :]

    def logged(self, ref: ClusterRef) -> tuple[str, ...]:
        return tuple(sorted(self.others))

    def verbs(self) -> list[object]:
        """What was asked, by name."""
        return [asked[0] for asked in self.asked]


def never(*_arguments: object) -> Any:
    raise AssertionError("only a master makes this")


class FakeStorage:
    """Leaves everything where it is."""

    def resolve(self, uri: str, context: ClientContext) -> Staged:
        return Staged(uri, "in_place")


class FakePlugin:
    """Offers the runtime ``fake`` and a storage for bare paths."""

    def __init__(self, fleet: FakeFleet) -> None:
        self.fleet = fleet

    @hookimpl
    def tarn_scaling_policies(self) -> Mapping[str, Factory[Any]]:
        return {
            "fixed": Factory(NoSettings, never, "keeps the size"),
            "target": Factory(NoSettings, never, "what bounds without a policy mean"),
        }

    @hookimpl
    def tarn_authorizers(self) -> Mapping[str, Factory[Any]]:
        return {"none": Factory(NoSettings, never, "asks nobody")}

    @hookimpl
    def tarn_affinities(self) -> Mapping[str, Factory[Any]]:
        return {"auto": Factory(NoSettings, never, "keeps nothing together")}

    @hookimpl
    def tarn_runtimes(self) -> Mapping[str, RuntimeFactory]:
        return {
            "fake": RuntimeFactory(
                NoSettings,
                lambda _settings, _context: self.fleet,
                never,
                never,
                never,
                self.fleet.capabilities,
                "a runtime in memory",
            )
        }

    @hookimpl
    def tarn_storages(self) -> Mapping[str, StorageFactory]:
        return {"fake": StorageFactory(frozenset({""}), FakeStorage, "leaves it in place")}


def repository(folder: Path) -> Path:
    """Make a model repository with one model."""
    version = folder / "models" / "echo" / "1"
    version.mkdir(parents=True, exist_ok=True)
    (version / "model.py").write_text("")
    return folder / "models"
