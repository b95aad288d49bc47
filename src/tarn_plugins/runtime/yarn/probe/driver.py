"""The client's end of the probes: begins, continues, calls, and always ends them."""

import contextlib
import socket
import threading
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import attrs

from tarn.errors import LaunchError, ProviderError, TarnError, UnreachableError
from tarn.interfaces import Clock, Finding
from tarn.plain import pasted
from tarn.plain.structure import from_record
from tarn_plugins.runtime.yarn.client.checks import from_error
from tarn_plugins.runtime.yarn.client.hadoop_child import HadoopClient
from tarn_plugins.runtime.yarn.master import exits
from tarn_plugins.runtime.yarn.messages import Completed
from tarn_plugins.runtime.yarn.probe.messages import (
    ProbeProgress,
    ProbeRequest,
    ProbeResult,
    ProbeStarted,
    WaitContext,
    parse,
)
from tarn_plugins.runtime.yarn.survey import MEMORY, VCORES, Amounts, amounts_text

__all__ = ["Patience", "ProbeRound"]

# For one question; the first includes the start of a JVM.
LOOK_S = 45.0
_CONNECT_S = 0.5


@attrs.frozen
class Patience:
    """The time limits of a probe."""

    grant_s: float = 15.0
    """For its container; with GPUs, as long again for one without them."""
    look_s: float = 3.0
    """Time after which to check whether it can be granted at all."""
    run_s: float = 40.0
    """For the run of the container."""
    poll_s: float = 0.25
    """Between two steps, each of which is a heartbeat."""

    @property
    def most_s(self) -> float:
        """The most that a round takes, with the start of a JVM and the submissions."""
        return LOOK_S + 2 * self.grant_s + self.run_s


def call(host: str, port: int, word: str) -> str:
    """Send *word* to an address; return '' for the right answer, else the error."""
    try:
        with socket.create_connection((host, port), _CONNECT_S) as talk:
            talk.settimeout(_CONNECT_S)
            talk.sendall(word.encode())
            answer = talk.recv(64)
    except OSError as error:
        return error.strerror or str(error)
    return "" if answer == word[::-1].encode() else "another program listens there"


class ProbeRound:
    """All probes of one `tarn doctor`, run once and in parallel, for the first `outcome`.

    Any thread may use it. The work is done on a thread of its own. If the process ends meanwhile,
    it closes the pipe to its child, which then ends the probes.

    Args:
        start_child: Starts the child.
        orders: The containers, by key.
        clock: The client's.
        patience: The time limits.
        call: Tries (host, port, word), and returns the error or ''.
    """

    def __init__(
        self,
        start_child: Callable[[], HadoopClient],
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
        """Return the result of one container; wait at most `Patience.most_s` for it."""
        with self._lock:
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="probe", daemon=True)
                self._thread.start()
        if not self._over[key].wait(self._patience.most_s):
            found = f"did not come back within {self._patience.most_s:g} s"
            return ProbeResult(failure=Finding("TARN-3181", "the probe", found, "Try again"))
        return self._outcomes[key]

    def join(self) -> None:
        """Wait until all probes that were begun have ended."""
        if self._thread is not None:
            self._thread.join(self._patience.most_s)

    def _run(self) -> None:
        try:
            hadoop = self._start_child()
            try:
                self._drive(hadoop)
            finally:
                hadoop.close()
        except Exception as error:  # noqa: BLE001 (becomes the result of the others)
            self._settle_rest(error)

    def _drive(self, hadoop: HadoopClient) -> None:
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
    """A container, from submission to the end of its application. Only one thread may use it."""

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
        """Continue without waiting; return the result once the probe is over."""
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
        """End the application. If that fails, YARN ends it later. Idempotent."""
        began, self._began = self._began, None
        if began is not None:
            with contextlib.suppress(TarnError, OSError):
                self._ask("end", application_id=began.application_id, why=why)

    def _go_on(self) -> ProbeResult | None:
        if self._began is None:
            self._begin()
            return None
        id_of = {"application_id": self._began.application_id}
        step = from_record(ProbeProgress, self._ask("step", **id_of))
        if step.state == "over":
            said = step.diagnostics.partition("\n")[0] or "it gave no reason"
            found = f"YARN ended the probe's application: {said}"
            return attrs.evolve(
                self._seen, failure=Finding("TARN-3180", "yarn", found, "Try again")
            )
        if step.state == "ended":
            return self._ended(step)
        if step.state == "running":
            return self._running(step)
        return self._waiting(id_of)

    def _begin(self) -> None:
        began = self._ask("begin", order=attrs.asdict(self._order))
        self._began = from_record(ProbeStarted, began)
        self._since_s, self._granted_s = self._clock.now_s(), None
        self._asked_whether = False
        self._seen = attrs.evolve(self._seen, targets=self._began.targets, gpus=self._order.gpus)

    def _waiting(self, id_of: Mapping[str, str]) -> ProbeResult | None:
        waited_s = self._clock.now_s() - self._since_s
        over = waited_s > self._patience.grant_s
        if not over and (self._asked_whether or waited_s < self._patience.look_s):
            return None
        self._asked_whether = True
        crowd = from_record(WaitContext, self._ask("crowd", **id_of))
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
        """End the application, and begin one without GPUs, for the other facts."""
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
    """Return the finding for an *error*, before or after the application began."""
    if not isinstance(error, TarnError):
        return Finding("TARN-3181", "the probe", f"failed: {error}", "Try again")
    found = from_error(error)
    if error.code not in (ProviderError.default_code, LaunchError.default_code):
        return found  # it has its own explanation: no Java here, no ticket, no answer
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


def _no_facts(step: ProbeProgress) -> Finding:
    completed = Completed(step.container_id, step.exit_code, step.diagnostics)
    return Finding(
        "TARN-3181",
        f"{step.container_id} on {step.node}",
        f"the container {exits.explain(completed, asked=False).reason}",
        "An instance would end in the same way: fix the reported cause, then try again",
    )


def hopeless(order: ProbeRequest, crowd: WaitContext) -> str:
    """Return why waiting longer is useless; '' if it may help."""
    overview = crowd.overview
    if not overview.nodes:  # unknown
        return ""
    if not any(node.runs for node in overview.nodes):
        return f"none of {len(overview.nodes)} NodeManagers runs"
    label = overview.label(order.label, order.queue)
    if overview.running(label):
        return ""
    others = sorted({node.label for node in overview.nodes if node.runs and node.label})
    known = f"; those that run have: {', '.join(others)}" if others else ""
    return f"no running node {_has(label)}{known}"


def waits(order: ProbeRequest, crowd: WaitContext) -> str:
    """Return why the container was not granted so far."""
    return "; ".join(_reasons(order, crowd)) or "YARN gave no reason"


def _reasons(order: ProbeRequest, crowd: WaitContext) -> Iterator[str]:
    label = crowd.overview.label(order.label, order.queue)
    nodes = crowd.overview.running(label)
    wanted = _wanted(order)
    if nodes and not any(node.has_free(wanted) for node in nodes):
        yield f"of {len(nodes)} nodes, none that {_has(label)} has {amounts_text(wanted)} free"
    free = crowd.queue_free_mib
    if free is not None and free < order.memory_mib:
        yield f"the queue '{order.queue}' has {max(free, 0)} MiB left for this user"
    if said := crowd.diagnostics.strip().partition("\n")[0]:
        yield f"YARN says: {said}"


def _has(label: str) -> str:
    return f"has the label '{label}'" if label else "is in the default partition"


def _wanted(order: ProbeRequest) -> Amounts:
    gpus = {order.gpu_resource: order.gpus} if order.gpus else {}
    return {MEMORY: order.memory_mib, VCORES: order.vcores, **gpus}
