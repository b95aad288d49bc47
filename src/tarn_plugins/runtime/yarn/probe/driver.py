"""A client's end of the probes: begins them, goes on with them, listens, and always ends them."""

import contextlib
import socket
import threading
from collections.abc import Callable, Mapping
from typing import Any, Protocol

import attrs
from cattrs.preconf.json import make_converter

from tarn.errors import LaunchError, ProviderError, TarnError, UnreachableError
from tarn.interfaces import Clock, Finding
from tarn.plain import pasted
from tarn_plugins.runtime.yarn.client.checks import from_error
from tarn_plugins.runtime.yarn.client.hadoop_child import HadoopClient
from tarn_plugins.runtime.yarn.master import exits
from tarn_plugins.runtime.yarn.messages import Completed
from tarn_plugins.runtime.yarn.probe.facts import Facts, parse
from tarn_plugins.runtime.yarn.probe.messages import (
    ProbeProgress,
    ProbeRequest,
    ProbeStarted,
    WaitContext,
)
from tarn_plugins.runtime.yarn.probe.waiting import hopeless, waits

__all__ = ["ClosableHadoopClient", "Patience", "ProbeResult", "ProbeRound", "call"]

LOOK_S = 45.0
"""For one question: a JVM's start is part of the first."""
_CONNECT_S = 0.5
_converter = make_converter()


class ClosableHadoopClient(HadoopClient, Protocol):
    """A `HadoopClient` that owns a child process."""

    def close(self) -> None:
        """End the child. Idempotent."""
        ...


@attrs.frozen
class Patience:
    """How long a probe is waited for."""

    grant_s: float = 15.0
    """For its container; with GPUs as long again, without them then."""
    look_s: float = 3.0
    """After so long it is asked whether there is any hope."""
    run_s: float = 40.0
    """For what the container does."""
    poll_s: float = 0.25
    """Between two looks, each of which is a heartbeat."""

    @property
    def most_s(self) -> float:
        """The most that a round takes; a JVM and the submissions are part of it."""
        return LOOK_S + 2 * self.grant_s + self.run_s


@attrs.frozen
class ProbeResult:
    """What came of one container."""

    facts: Facts = attrs.field(factory=Facts)
    failure: Finding | None = None
    """What is wrong, where there are no facts for it."""
    untold: str = ""
    """Why there are no facts, where nothing need be wrong."""
    node: str = ""
    waited_s: float = 0.0
    """From the submission to the grant."""
    gpus: int = 0
    """How many it was given."""
    gpus_wait: str = ""
    """Why it was given none of those that were asked for."""
    targets: tuple[tuple[str, str], ...] = ()
    """(what, ``host:port``): of ``reach_1`` and those after it."""
    heard: bool = False
    """Whether the client got through to where the container listened."""
    call_error: str = ""
    """Why not, at the last try."""
    started_at: float = 0.0
    heard_at: float = 0.0


def call(host: str, port: int, word: str) -> str:
    """Say *word* at this address; empty when it was answered, else why not."""
    try:
        with socket.create_connection((host, port), _CONNECT_S) as talk:
            talk.settimeout(_CONNECT_S)
            talk.sendall(word.encode())
            answer = talk.recv(64)
    except OSError as error:
        return error.strerror or str(error)
    return "" if answer == word[::-1].encode() else "another program listens there"


class ProbeRound:
    """All probes of one `tarn doctor`: they run side by side, once, when the first is asked for.

    Any thread. The work is done on one thread of its own; a process that ends without it closes the
    pipe to its child, which then ends what is under way.

    Args:
        start_child: Starts the child.
        orders: By key.
        clock: The client's.
        patience: How long is waited.
        call: Tries an address: (host, port, word) to why it is not reached.
    """

    def __init__(
        self,
        start_child: Callable[[], ClosableHadoopClient],
        orders: Mapping[str, ProbeRequest],
        clock: Clock,
        patience: Patience = Patience(),
        call: Callable[[str, int, str], str] = call,
    ) -> None:
        self._start_child, self._orders, self._clock = start_child, dict(orders), clock
        self._patience, self._call = patience, call
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._outcomes: dict[str, ProbeResult] = {}
        self._over = {key: threading.Event() for key in orders}

    def outcome(self, key: str) -> ProbeResult:
        """Return what came of one container; waits for it, for `Patience.most_s` at most."""
        with self._lock:
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="probe", daemon=True)
                self._thread.start()
        if not self._over[key].wait(self._patience.most_s):
            return ProbeResult(failure=_silent(self._patience.most_s))
        return self._outcomes[key]

    def join(self) -> None:
        """Wait until everything was ended, if anything was begun."""
        if self._thread is not None:
            self._thread.join(self._patience.most_s)

    def _run(self) -> None:
        try:
            hadoop = self._start_child()
            try:
                self._drive(hadoop)
            finally:
                hadoop.close()
        except Exception as error:  # noqa: BLE001 (whoever waits must hear of it)
            self._settle_rest(error)

    def _drive(self, hadoop: ClosableHadoopClient) -> None:
        trials = {
            key: _Trial(hadoop, self._clock, order, self._patience, self._call)
            for key, order in self._orders.items()
        }
        pause, left = threading.Event(), dict(trials)
        try:
            while left:
                for key, trial in tuple(left.items()):
                    if (outcome := trial.go_on()) is not None:
                        del left[key]
                        self._settle(key, outcome)
                if left:
                    pause.wait(self._patience.poll_s)
        finally:
            for trial in left.values():
                trial.end("it was given up")

    def _settle(self, key: str, outcome: ProbeResult) -> None:
        self._outcomes[key] = outcome
        self._over[key].set()

    def _settle_rest(self, error: Exception) -> None:
        failure = (
            from_error(error)
            if isinstance(error, TarnError)
            else Finding("TARN-3181", "the probe", f"failed: {type(error).__name__}", "")
        )
        for key, over in self._over.items():
            if not over.is_set():
                self._settle(key, ProbeResult(failure=failure))


class _Trial:
    """One container, from its submission to the end of its application. One thread."""

    def __init__(
        self,
        hadoop: HadoopClient,
        clock: Clock,
        order: ProbeRequest,
        patience: Patience,
        call: Callable[[str, int, str], str],
    ) -> None:
        self._hadoop, self._clock, self._order = hadoop, clock, order
        self._patience, self._call = patience, call
        self._began: ProbeStarted | None = None
        self._since_s = 0.0
        self._granted_s: float | None = None
        self._asked_whether = False
        self._seen = ProbeResult()

    def go_on(self) -> ProbeResult | None:
        """Do what can be done at once; returns the outcome, after which there is nothing to do."""
        try:
            outcome = self._go_on()
        except (TarnError, OSError) as error:
            outcome = self._after(error)
            if outcome is None:
                return None
        except BaseException:
            self.end("the client failed")
            raise
        if outcome is not None:
            self.end("the probe is over")
        return outcome

    def end(self, why: str) -> None:
        """End the application. Idempotent; YARN ends it later where that fails."""
        began, self._began = self._began, None
        if began is not None:
            with contextlib.suppress(TarnError, OSError):
                self._ask("end", application_id=began.application_id, why=why)

    def _go_on(self) -> ProbeResult | None:
        if self._began is None:
            self._begin()
            return None
        id_of = {"application_id": self._began.application_id}
        step = _converter.structure(self._ask("step", **id_of), ProbeProgress)
        if step.state == "over":
            return attrs.evolve(self._seen, failure=_ended_by_yarn(step))
        if step.state == "ended":
            return self._ended(step)
        if step.state == "running":
            return self._running(step)
        return self._waiting(id_of)

    def _begin(self) -> None:
        began = self._ask("begin", order=attrs.asdict(self._order))
        self._began = _converter.structure(began, ProbeStarted)
        self._since_s, self._granted_s = self._clock.now_s(), None
        self._asked_whether = False
        self._seen = attrs.evolve(self._seen, targets=self._began.targets, gpus=self._order.gpus)

    def _waiting(self, id_of: Mapping[str, str]) -> ProbeResult | None:
        waited_s = self._clock.now_s() - self._since_s
        over = waited_s > self._patience.grant_s
        if not over and (self._asked_whether or waited_s < self._patience.look_s):
            return None
        self._asked_whether = True
        crowd = _converter.structure(self._ask("crowd", **id_of), WaitContext)
        words = hopeless(self._order, crowd)
        if over and not words:
            words = waits(self._order, crowd)
        if not words:
            return None
        if self._order.gpus:
            self._go_without_gpus(words)
            return None
        return attrs.evolve(self._seen, failure=_never_granted(self._order, words, waited_s))

    def _go_without_gpus(self, words: str) -> None:
        """Let go of the application, and begin one without GPUs: the rest can be seen so."""
        self.end("it did not get its GPUs")
        self._seen = attrs.evolve(self._seen, gpus_wait=words)
        self._order = attrs.evolve(self._order, gpus=0)

    def _running(self, step: ProbeProgress) -> ProbeResult | None:
        now_s = self._clock.now_s()
        if self._granted_s is None:
            self._granted_s = now_s
            self._seen = attrs.evolve(self._seen, waited_s=now_s - self._since_s)
        if step.node:
            self._seen = attrs.evolve(self._seen, node=step.node)
            if self._order.ports and not self._seen.heard:
                self._try_to_call(step.node)
        if now_s - self._granted_s > self._patience.run_s:
            return attrs.evolve(
                self._seen,
                untold=f"the container on {step.node} reported nothing within "
                f"{self._patience.run_s:g} s, and was ended: the node may be overloaded, or "
                "still be fetching the image",
            )
        return None

    def _after(self, error: Exception) -> ProbeResult | None:
        if isinstance(error, UnreachableError) and not self._order.managed:
            self.end("this machine does not reach what it needs")
            self._order = attrs.evolve(self._order, managed=True)
            return None
        began = self._began is not None
        if began and self._order.gpus and isinstance(error, ProviderError):
            wanted = f"{self._order.gpus} of {self._order.gpu_resource}"
            self._go_without_gpus(f"YARN refuses a container with {wanted}")
            return None
        return attrs.evolve(self._seen, failure=_failed(self._order, error, began=began))

    def _try_to_call(self, node: str) -> None:
        for port in self._order.ports:
            error = self._call(node, port, self._order.word)
            self._seen = attrs.evolve(self._seen, heard=not error, call_error=error)
            if not error:
                return

    def _ended(self, step: ProbeProgress) -> ProbeResult:
        facts = parse(step.diagnostics)
        seen = attrs.evolve(
            self._seen,
            node=step.node or self._seen.node or facts.get("node"),
            facts=facts,
            started_at=step.started_at,
            heard_at=step.heard_at,
        )
        return seen if facts else attrs.evolve(seen, failure=_no_facts(step))

    def _ask(self, do: str, **parts: Any) -> Any:
        return self._hadoop.ask("probe", LOOK_S, do=do, **parts)


def _failed(order: ProbeRequest, error: Exception, *, began: bool) -> Finding:
    """Return the finding that an *error* is, before or after the application began."""
    if not isinstance(error, TarnError):
        return Finding("TARN-3181", "the probe", f"failed: {error}", "Try again")
    found = from_error(error)
    if error.code not in (ProviderError.default_code, LaunchError.default_code):
        return found  # it says by itself what is wrong: no Java here, no ticket, no answer
    if began:
        said = f"its container was not granted, or not started: {error.found}"
        next_step = (
            "`yarn cluster --list-node-labels` and "
            f"`{pasted('yarn', 'queue', '-status', order.queue)}` show the existing ones: "
            "correct queue or node label, or have the queue's accessible-node-labels changed"
        )
    else:
        said = f"{error.found} (the probe is an unmanaged application: its master is this client)"
        next_step = "`tarn doctor` without --probe shows queues, labels and limits"
    return Finding(
        "TARN-3180", f"runtime.options.queue = '{order.queue}'{_label(order)}", said, next_step
    )


def _label(order: ProbeRequest) -> str:
    return f", node label '{order.label}'" if order.label else ""


def _never_granted(order: ProbeRequest, words: str, waited_s: float) -> Finding:
    return Finding(
        "TARN-3180",
        f"runtime.options.queue = '{order.queue}'{_label(order)}",
        f"YARN gave no container of {order.memory_mib} MiB within {waited_s:.0f} s: {words}",
        "Wait for room, choose another queue or label, or have nodes added",
    )


def _ended_by_yarn(step: ProbeProgress) -> Finding:
    said = step.diagnostics.partition("\n")[0] or "it gave no reason"
    return Finding("TARN-3180", "yarn", f"YARN ended the probe's application: {said}", "Try again")


def _no_facts(step: ProbeProgress) -> Finding:
    completed = Completed(step.container_id, step.exit_code, step.diagnostics)
    return Finding(
        "TARN-3181",
        f"{step.container_id} on {step.node}",
        f"the container {exits.explain(completed, asked=False).reason}",
        "An instance would end in the same way: fix the reported cause, then try again",
    )


def _silent(most_s: float) -> Finding:
    return Finding("TARN-3181", "the probe", f"did not come back within {most_s:g} s", "Try again")
