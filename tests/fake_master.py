"""A master without a fleet: a board, an inbox, and a thread that answers commands."""

import ssl
import threading
import time
from collections.abc import Mapping, Sequence
from typing import Any, Self

import attrs

from tarn.control.mailbox import Inbox, Request
from tarn.domain import (
    Acknowledge,
    ClusterState,
    Command,
    ControlRequest,
    Decision,
    Demand,
    DiscoveryView,
    Done,
    Drain,
    Endpoint,
    Epoch,
    Event,
    Instance,
    InstanceState,
    Known,
    Limits,
    Member,
    Principal,
    ProxyRule,
    Readiness,
    Reading,
    Requester,
    Scale,
    Verdict,
)
from tarn.errors import ConflictError, NotFoundError, RefusedError
from tarn.http.app import Application
from tarn.http.blocking_pool import AccessGate, DirectAuthorizer
from tarn.http.rights import Sources
from tarn.http.server import HttpServer
from tarn.read.snapshot import Board, Follower, Snapshot, render_instances

EPOCH = Epoch(1764201600000, 1)
TOKEN = b"correct-horse"


class RealClock:
    """The machine's clock."""

    def now_s(self) -> float:
        return time.monotonic()

    def at(self) -> float:
        return time.time()


@attrs.frozen
class StillClock:
    """A clock that stands."""

    now: float = 1000.0
    wall: float = 1764201700.0

    def now_s(self) -> float:
        return self.now

    def at(self) -> float:
        return self.wall


@attrs.define
class FakeAuthorizer:
    """Answers what it was told to, and remembers what it was asked."""

    verdict: Verdict = attrs.field(factory=lambda: Verdict(allowed=True, reason="fake"))
    asked: list[tuple[Principal, str, str]] = attrs.field(factory=list)

    def check(self, principal: Principal, action: str, model: str) -> Verdict:
        self.asked.append((principal, action, model))
        return self.verdict

    def check_each(
        self, principal: Principal, action: str, models: Sequence[str]
    ) -> tuple[Verdict, ...]:
        return tuple(self.check(principal, action, model) for model in models)

    def close(self) -> None:
        pass

    def ready(self) -> Readiness:
        return Readiness(ready=True)


@attrs.define
class PolicyAuthorizer(FakeAuthorizer):
    """Lets a user do what stands in ``rights``: (user, action, model); nobody else anything."""

    rights: set[tuple[str, str, str]] = attrs.field(factory=set)
    lists: list[tuple[str, ...]] = attrs.field(factory=list)
    """The models of each question about several."""
    stale: bool = False

    def check(self, principal: Principal, action: str, model: str) -> Verdict:
        self.asked.append((principal, action, model))
        allowed = (principal.user, action, model) in self.rights
        return Verdict(allowed=allowed, reason="policy 7", stale=self.stale)

    def check_each(
        self, principal: Principal, action: str, models: Sequence[str]
    ) -> tuple[Verdict, ...]:
        self.lists.append(tuple(models))
        return tuple(self.check(principal, action, model) for model in models)


def instance(number: int, state: InstanceState = InstanceState.READY, **changes: Any) -> Instance:
    """An instance as the control thread would know it."""
    plain = Instance(
        f"llama-{number:04d}",
        "abc123abc123",
        state,
        since_s=900.0,
        requested_s=880.0,
        ready_s=900.0 if state is InstanceState.READY else None,
        container_id=f"{40000 + number}",
        node="127.0.0.1",
        endpoint=Endpoint("127.0.0.1", 8000 + 10 * number, 8001 + 10 * number, 8002 + 10 * number),
        models=(("echo", "READY", ""),),
        busy=Known(2.0),
    )
    return attrs.evolve(plain, **changes)


def reading(number: int, **metrics: float) -> Reading:
    """What was scraped of one instance."""
    known = {name: Known(value) for name, value in metrics.items()}
    return Reading(f"llama-{number:04d}", 1000.0, metrics=known)


def view(instances: tuple[Instance, ...], revision: int = 3) -> DiscoveryView:
    """The complete view of those that may get traffic."""
    members = tuple(
        Member(i.id, i.container_id or "", i.endpoint, i.spec_hash)
        for i in instances
        if i.in_view and i.endpoint
    )
    return DiscoveryView(EPOCH, revision, complete=True, members=members)


def snapshot(*instances: Instance, **changes: Any) -> Snapshot:
    """A picture of a cluster with these instances, its bytes rendered."""
    plain = Snapshot(
        at=1764201700.0,
        name="llama",
        runtime="local",
        epoch=EPOCH,
        state=ClusterState.READY,
        reason="",
        spec_revision=7,
        desired=len(instances),
        limits=Limits(1, 8),
        manual=None,
        pause=None,
        instances=instances,
        ended=(),
        view=view(instances),
        followers=(Follower("lb1", required=True, revision=3, age_s=1.5),),
        events=(),
        decisions=(),
        stale=False,
    )
    return rendered(attrs.evolve(plain, **changes))


def rendered(picture: Snapshot) -> Snapshot:
    """The same picture with the bytes that belong to it."""
    return attrs.evolve(picture, instances_text=render_instances(picture))


def event(message: str, count: int = 1) -> Event:
    """Something that happened."""
    return Event("TARN-1102", "llama-0001", message, first=1.0, last=float(count), count=count)


def decision(desired: int) -> Decision:
    """An answer to how many."""
    return Decision(at=1.0, wanted=desired, desired=desired, by="scale", reason="asked")


class FakeMaster:
    """Board, inbox, control thread and HTTP server of a cluster that is only a picture."""

    def __init__(
        self,
        first: Snapshot | None = None,
        *,
        api_token: bytes | None = TOKEN,
        gate: AccessGate | None = None,
        config: Mapping[str, object] | None = None,
        readiness: Readiness | None = None,
        proxy: ProxyRule | None = None,
        tls: ssl.SSLContext | None = None,
        host: str = "127.0.0.1",
        **more: Any,
    ) -> None:
        self.board = Board(first or snapshot(instance(1), instance(2)))
        self._asked = threading.Event()
        self.inbox = Inbox(self._asked.set)
        self.commands: list[Command] = []
        self.askers: list[Requester | None] = []
        self.silent = False
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._control, name="control")
        self.server = HttpServer(host, tls=tls)
        self.url = self.server.url
        self.app = Application(
            Sources(
                board=self.board,
                inbox=self.inbox,
                gate=gate or DirectAuthorizer(FakeAuthorizer()),
                readiness=lambda: readiness or Readiness(ready=True),
                config=lambda: config or {"name": "llama", "replicas": {"min": 1, "max": 8}},
                api_token=api_token,
                proxy=proxy,
                **{"clock": RealClock(), "rate_limit": 1_000_000, **more},
            )
        )

    def __enter__(self) -> Self:
        self._thread.start()
        self.server.start(self.app)
        return self

    def __exit__(self, *_exc: object) -> None:
        self.server.close()
        self._over.set()
        self._asked.set()
        self._thread.join(timeout=5)

    def publish(self, **changes: Any) -> None:
        """Show a picture that differs from the present one by *changes*."""
        self.board.publish(rendered(attrs.evolve(self.board.current, **changes)))

    def _control(self) -> None:
        while not self._over.is_set():
            self._asked.wait(timeout=1)
            self._asked.clear()
            if not self.silent:
                for request in self.inbox.drain():
                    self._obey(request)

    def _obey(self, request: Request) -> None:
        self.askers.append(request.asker)
        try:
            request.answer.set_result(self._answer(request))
        except (RefusedError, ConflictError, NotFoundError) as error:
            request.answer.set_exception(error)

    def _answer(self, request: Request) -> Done:
        now = self.board.current
        if request.if_match not in (None, now.spec_revision):
            raise ConflictError("changed meanwhile", spec_revision=now.spec_revision)
        match request.command:
            case Scale(replicas=int(wanted)) if wanted > now.limits.max:
                raise RefusedError(f"{wanted} is above replicas.max = {now.limits.max}")
            case Drain(instance_id=name) if name not in {i.id for i in now.instances}:
                raise NotFoundError(f"no instance '{name}'")
            case ControlRequest():
                self.commands.append(request.command)
                return Done(now.spec_revision, "asked", now.control.number)
            case Acknowledge() | Demand():
                self.commands.append(request.command)
                return Done(now.spec_revision, "heard")
        self.commands.append(request.command)
        self.publish(spec_revision=now.spec_revision + 1)
        return Done(now.spec_revision + 1, "done")
