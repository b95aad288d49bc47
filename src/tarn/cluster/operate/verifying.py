"""Send canary inferences at a fixed rate, however slow the answers are, and report the result."""

import contextlib
import http.client
import json
import math
import queue
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Self

import attrs

from tarn.cluster.read import card
from tarn.cluster.read.table import columns
from tarn.errors import ConfigError, NotFoundError, TarnError, UnreachableError
from tarn.interfaces import Clock, Progress
from tarn.plain import did_you_mean
from tarn.triton.test_requests import Canary, canary, given

__all__ = [
    "RequestSummary",
    "Shot",
    "VerifyOptions",
    "VerifyReport",
    "VerifyTarget",
    "percentile",
    "report",
    "verify",
]

# Kinds of loss that a report shows, each with its count; one broken model has few.
MOST_ERRORS = 10
Status = Mapping[str, Any]
Hear = Callable[[Progress], None]
LOOK_EVERY_S = 1.0
MOST_RPS = 1000
# Threads; a request that is due beyond them waits for one, and the wait counts as latency.
MOST_IN_FLIGHT = 1000
# Characters of an error's text that a report keeps.
_SAID = 300


@attrs.frozen
class Shot:
    """One request that was sent, and its result."""

    instance: str
    model: str
    latency_s: float
    """From the moment it was due, so waiting for a thread counts."""
    error: str = ""
    """Why it was lost; empty when it was answered."""


@attrs.frozen
class RequestSummary:
    """Sums over some shots. Times are seconds of answered requests; None without an answer."""

    instance: str
    sent: int
    answered: int
    lost: int
    slow: int
    p50_s: float | None
    p95_s: float | None
    p99_s: float | None
    most_s: float | None


@attrs.frozen
class VerifyReport:
    """The result of canary inferences on one cluster."""

    cluster: str
    models: tuple[str, ...]
    rps: float
    """As it was asked for."""
    seconds: float
    slow_s: float
    """Beyond this an answer counts as slow."""
    total: RequestSummary
    instances: tuple[RequestSummary, ...]
    """One for each instance, by id."""
    errors: tuple[tuple[str, str, str, int], ...]
    """(instance, model, why it was lost, how often), the most frequent first."""

    @property
    def ok(self) -> bool:
        """Whether something was sent, and nothing was lost."""
        return self.total.sent > 0 and self.total.lost == 0

    def plain(self) -> dict[str, object]:
        """Return the report as JSON-serializable data."""
        whole = attrs.asdict(self)
        names = ("instance", "model", "error", "count")
        errors = [dict(zip(names, error, strict=True)) for error in self.errors]
        return {"ok": self.ok, **whole, "models": list(self.models), "errors": errors}

    def __str__(self) -> str:
        """Return the report as text."""
        heads = ("INSTANCE", "SENT", "ANSWERED", "LOST", "SLOW", "P50", "P95", "P99", "MAX")
        lines = [self._headline(), "", columns(heads, map(_cells, self._lines()))]
        if self.errors:
            lines.append("")
        few = self.errors[:MOST_ERRORS]
        lines += [f"{count} lost on {who} ({model}): {why}" for who, model, why, count in few]
        if left := len(self.errors) - len(few):
            lines.append(f"… and {left} more kinds of loss")
        return "\n".join(lines)

    def __repr__(self) -> str:
        """Return the text for people, because a notebook shows a value by its repr."""
        return str(self)

    def _repr_html_(self) -> str:
        heads = ("instance", "sent", "answered", "lost", "slow", "p50", "p95", "p99", "max")
        few = self.errors[:MOST_ERRORS]
        lost = [(who, model, count, why) for who, model, why, count in few]
        return (
            card.line(self._headline(), "ready" if self.ok else "failed")
            + card.rows(heads, [_cells(line) for line in self._lines()])
            + card.rows(("instance", "model", "lost", "why"), lost)
        )

    def _lines(self) -> tuple[RequestSummary, ...]:
        return self.instances if len(self.instances) == 1 else (*self.instances, self.total)

    def _headline(self) -> str:
        total = self.total
        slow = f", {total.slow} slower than {self.slow_s:g} s" if total.slow else ""
        sent = f"{total.sent} sent in {self.seconds:g} s to {', '.join(self.models)}"
        return f"{self.cluster}: {sent}, {total.answered} answered, {total.lost} lost{slow}"


def report(  # noqa: PLR0913 (what was asked, besides what came of it)
    cluster: str,
    shots: Sequence[Shot],
    *,
    models: Sequence[str],
    rps: float,
    seconds: float,
    slow_s: float,
) -> VerifyReport:
    """Return the report over *shots*."""
    by_instance: dict[str, list[Shot]] = {}
    kinds: dict[tuple[str, str, str], int] = {}
    for shot in shots:
        by_instance.setdefault(shot.instance, []).append(shot)
        if shot.error:
            kind = (shot.instance, shot.model, shot.error)
            kinds[kind] = kinds.get(kind, 0) + 1
    errors = sorted(((*kind, count) for kind, count in kinds.items()), key=lambda e: (-e[3], e))
    lines = [_line(name, by_instance[name], slow_s) for name in sorted(by_instance)]
    total = _line("all", shots, slow_s)
    return VerifyReport(
        cluster, tuple(models), rps, seconds, slow_s, total, tuple(lines), tuple(errors)
    )


def percentile(ordered: Sequence[float], fraction: float) -> float | None:
    """Return the smallest of *ordered* that *fraction* of them do not exceed; None if empty."""
    return ordered[max(0, math.ceil(fraction * len(ordered)) - 1)] if ordered else None


def _line(name: str, shots: Iterable[Shot], slow_s: float) -> RequestSummary:
    every = list(shots)
    times = sorted(shot.latency_s for shot in every if not shot.error)
    return RequestSummary(
        name,
        sent=len(every),
        answered=len(times),
        lost=len(every) - len(times),
        slow=sum(time_s > slow_s for time_s in times),
        p50_s=percentile(times, 0.5),
        p95_s=percentile(times, 0.95),
        p99_s=percentile(times, 0.99),
        most_s=times[-1] if times else None,
    )


def _cells(line: RequestSummary) -> tuple[object, ...]:
    counts = (line.instance, line.sent, line.answered, line.lost, line.slow)
    times = (line.p50_s, line.p95_s, line.p99_s, line.most_s)
    return (
        *counts,
        *("" if t is None else f"{1000 * t:.1f} ms" if t < 1 else f"{t:.2f} s" for t in times),
    )


@attrs.frozen
class VerifyOptions:
    """How to verify. Times in seconds."""

    rps: float
    seconds: float
    models: tuple[str, ...] = ()
    """Empty: each model that is READY."""
    body: bytes | None = attrs.field(default=None, repr=False)
    timeout_s: float = 10.0
    slow_s: float = 1.0

    def __attrs_post_init__(self) -> None:
        """Refuse an invalid rate or duration, and one body for several models."""
        if not 0 < self.rps <= MOST_RPS:
            right = f"Use a rate above 0 and at most {MOST_RPS}."
            raise ConfigError(f"{self.rps:g} requests a second", where="rps", right=right)
        if self.seconds <= 0 or self.timeout_s <= 0:
            raise ConfigError("a duration of 0 s would send nothing", where="seconds, timeout")
        if self.body is not None and len(self.models) != 1:
            found = f"one request body cannot fit {len(self.models) or 'all'} models"
            raise ConfigError(found, where="body", next_step="Name one model.")


@attrs.frozen
class VerifyTarget:
    """One instance that may get traffic."""

    instance: str
    address: str
    """``host:port`` of its HTTP service."""


def verify(
    cluster: str, look: Callable[[], Status], order: VerifyOptions, clock: Clock, hear: Hear | None
) -> VerifyReport:
    """Send requests as *order* says to the ready instances, and return the report.

    Args:
        cluster: Its name.
        look: Returns the status; called each second, so the requests follow the view.
        order: What to send, and how fast.
        clock: Tells when a request is due.
        hear: Called with the progress each second.

    Raises:
        NotFoundError: No ready instance serves a model of the order.
        UnreachableError: No instance is ready, or it does not return its model's metadata.
    """
    status = look()
    targets = _targets(cluster, status)
    models = _models(order, status)
    shots = _Sender(order, _canaries(order, models, targets[0]), targets, clock)
    hear = hear or (lambda _progress: None)
    with shots:
        while not shots.over.wait(LOOK_EVERY_S):
            with contextlib.suppress(TarnError):  # without a master the last view is used
                shots.targets = _targets(cluster, look())
            lost = sum(bool(shot.error) for shot in tuple(shots.taken))
            said = f"{shots.sent} of {shots.due} sent, {lost} lost"
            hear(Progress("verifying", said, shots.sent, shots.due))
    return report(
        cluster,
        shots.taken,
        models=models,
        rps=order.rps,
        seconds=order.seconds,
        slow_s=order.slow_s,
    )


class _Sender:
    """Sends each request when it is due, and collects the results. Owns its threads."""

    def __init__(
        self,
        order: VerifyOptions,
        canaries: list[Canary],
        targets: tuple[VerifyTarget, ...],
        clock: Clock,
    ) -> None:
        self._order, self._canaries, self._clock = order, canaries, clock
        self.targets = targets
        """Where requests go; the caller replaces the tuple when the view changes."""
        self.due = max(1, round(order.rps * order.seconds))
        self.sent = 0
        self.taken: list[Shot] = []
        self.over = threading.Event()
        """Set once every request was answered or lost."""
        self._stop = threading.Event()
        self._waiting: queue.SimpleQueue[tuple[float, VerifyTarget, Canary] | None] = (
            queue.SimpleQueue()
        )
        self._lock = threading.Lock()
        self._idle = 0
        self._workers: list[threading.Thread] = []
        self._dispatcher = threading.Thread(target=self._dispatch, name="verify", daemon=True)

    def __enter__(self) -> Self:
        self._dispatcher.start()
        return self

    def __exit__(self, *_exc: object) -> None:
        self._stop.set()
        self._dispatcher.join(1.0)
        for _worker in self._workers:
            self._waiting.put(None)

    def _dispatch(self) -> None:
        begun_s = self._clock.now_s()
        canaries = self._canaries
        for number in range(self.due):
            due_s = begun_s + number / self._order.rps
            if self._stop.wait(max(0.0, due_s - self._clock.now_s())):
                return
            targets, turn = self.targets, number // len(canaries)
            self._send(due_s, targets[turn % len(targets)], canaries[number % len(canaries)])

    def _send(self, due_s: float, target: VerifyTarget, shot: Canary) -> None:
        with self._lock:
            self.sent += 1
            if self._idle:
                self._idle -= 1
            elif len(self._workers) < MOST_IN_FLIGHT:
                worker = threading.Thread(target=self._work, name="verify-shot", daemon=True)
                self._workers.append(worker)
                worker.start()
        self._waiting.put((due_s, target, shot))

    def _work(self) -> None:
        while (item := self._waiting.get()) is not None:
            due_s, target, shot = item
            error = _send_one(target, shot, self._order.timeout_s)
            latency_s = self._clock.now_s() - due_s
            with self._lock:
                self.taken.append(Shot(target.instance, shot.model, latency_s, error))
                self._idle += 1
                if len(self.taken) == self.due:
                    self.over.set()


def _send_one(target: VerifyTarget, shot: Canary, timeout_s: float) -> str:
    """Send one request; return why it was lost, or ''."""
    try:
        path = f"/v2/models/{shot.model}/infer"
        code, body = _exchange(target.address, "POST", path, timeout_s, shot)
    except TimeoutError:
        return f"no answer within {timeout_s:g} s"
    except (OSError, http.client.HTTPException) as error:
        return _text(error)
    return "" if code == http.client.OK else f"{code}: {_told(body)}"


def _exchange(
    address: str, method: str, path: str, timeout_s: float, shot: Canary | None = None
) -> tuple[int, bytes]:
    # A connection for each request: a kept one would delay the instance's end, and one that broke
    # while idle would look like a lost request.
    connection = http.client.HTTPConnection(address, timeout=timeout_s)
    try:
        headers = {"Connection": "close", **dict(shot.headers if shot else ())}
        connection.request(method, path, shot.body if shot else None, headers)
        answer = connection.getresponse()
        return answer.status, answer.read()
    finally:
        connection.close()


def _text(error: Exception) -> str:
    name = type(error).__name__
    if isinstance(error, OSError) and error.strerror:
        return error.strerror.lower()
    return f"{name}: {error}"[:_SAID] if str(error) else name


def _told(body: bytes) -> str:
    """Return Triton's error message from the body of a failed request."""
    text = body.decode("utf-8", "replace")
    with contextlib.suppress(ValueError, AttributeError):
        text = str(json.loads(text).get("error", text))
    return " ".join(text.split())[:_SAID] or "no text"


def _targets(cluster: str, status: Status) -> tuple[VerifyTarget, ...]:
    found = tuple(
        VerifyTarget(item["id"], item["http"])
        for item in status.get("instances", ())
        if item["state"] == "ready" and not item.get("suspect") and item.get("http")
    )
    if not found:
        step = f"`tarn why -c {cluster}` says why; `tarn wait -c {cluster}` waits."
        raise UnreachableError("no instance is ready", where=cluster, next_step=step)
    return found


def _models(order: VerifyOptions, status: Status) -> tuple[str, ...]:
    """Return the models of the order, or else each model that a ready instance serves."""
    served = dict.fromkeys(
        model["name"]
        for item in status.get("instances", ())
        for model in item.get("models", ())
        if model["state"] == "READY" and item["state"] == "ready"
    )
    for model in order.models:
        if model not in served and served:
            step = did_you_mean(model, served) or f"Served models: {', '.join(served)}."
            found = f"no ready instance serves the model '{model}'"
            raise NotFoundError(found, where=status["name"], next_step=step)
    if not served and not order.models:
        found = "no instance says which models it serves"
        raise NotFoundError(found, where=status["name"], next_step="Name one with --model.")
    return order.models or tuple(served)


def _canaries(order: VerifyOptions, models: tuple[str, ...], target: VerifyTarget) -> list[Canary]:
    if order.body is not None:
        return [given(models[0], order.body)]
    return [_made(model, target, order.timeout_s) for model in models]


def _made(model: str, target: VerifyTarget, timeout_s: float) -> Canary:
    where = f"{target.instance}, model '{model}'"
    try:
        code, body = _exchange(target.address, "GET", f"/v2/models/{model}", timeout_s)
        if code != http.client.OK:
            raise UnreachableError(f"its metadata cannot be read: {_told(body)}", where=where)
        return canary(json.loads(body))
    except (OSError, http.client.HTTPException) as error:
        raise UnreachableError(f"no answer: {_text(error)}", where=where) from error
    except ValueError as error:
        step = "Give your own request with --input FILE.json."
        raise ConfigError(str(error), where=where, next_step=step) from error
