"""Canary inferences, open loop: each is sent when it is due, however slow the others are.

Each goes on a connection of its own: one that is kept would hold up an instance's end, and one that
broke while idle would look like a loss.
"""

import contextlib
import http.client
import json
import queue
import threading
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Self

import attrs

from tarn.cluster.report import Shot, VerifyReport, report
from tarn.errors import ConfigError, NotFoundError, TarnError, UnreachableError
from tarn.interfaces import Clock, Progress
from tarn.plain import did_you_mean
from tarn.triton.canary import Canary, canary, given

__all__ = ["VerifyOptions", "VerifyTarget", "verify"]

Status = Mapping[str, Any]
Hear = Callable[[Progress], None]

LOOK_EVERY_S = 1.0
MOST_RPS = 1000
MOST_IN_FLIGHT = 1000
"""Threads at most; what is due beyond waits for one, and that waiting counts as latency."""
_SAID = 300
"""Characters of an error's text that a report keeps."""


@attrs.frozen
class VerifyOptions:
    """What is asked of `verify`. Times in seconds."""

    rps: float
    seconds: float
    models: tuple[str, ...] = ()
    """Empty: each that is READY."""
    body: bytes | None = attrs.field(default=None, repr=False)
    timeout_s: float = 10.0
    slow_s: float = 1.0

    def __attrs_post_init__(self) -> None:
        """Refuse what cannot be meant."""
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
    """Send what *order* says to the instances that *look* shows, and report.

    Raises:
        NotFoundError: A model of the order is not served.
        UnreachableError: No instance is ready, or it does not tell what its model takes.
    """
    status = look()
    targets = _targets(cluster, status)
    models = _models(order, status)
    shots = _Gallery(order, _canaries(order, models, targets[0]), targets, clock)
    hear = hear or (lambda _progress: None)
    with shots:
        while not shots.over.wait(LOOK_EVERY_S):
            with contextlib.suppress(TarnError):  # without a master the last view is what there is
                shots.targets = _targets(cluster, look())
            hear(Progress("verifying", shots.said(), shots.sent, shots.due))
    return report(
        cluster,
        shots.taken,
        models=models,
        rps=order.rps,
        seconds=order.seconds,
        slow_s=order.slow_s,
    )


class _Gallery:
    """Fires when it is time, and gathers what came of it. Owns its threads."""

    def __init__(
        self,
        order: VerifyOptions,
        canaries: list[Canary],
        targets: tuple[VerifyTarget, ...],
        clock: Clock,
    ) -> None:
        self._order, self._canaries, self._clock = order, canaries, clock
        self.targets = targets
        """Who may get traffic; replaced as a whole by whoever follows the view."""
        self.due = max(1, round(order.rps * order.seconds))
        self.sent = 0
        self.taken: list[Shot] = []
        self.over = threading.Event()
        """Everything that was sent has come to something."""
        self._stop = threading.Event()
        self._waiting: queue.SimpleQueue[tuple[float, VerifyTarget, Canary] | None] = (
            queue.SimpleQueue()
        )
        self._lock = threading.Lock()
        self._idle = 0
        self._workers: list[threading.Thread] = []
        self._marshal = threading.Thread(target=self._fire, name="verify", daemon=True)

    def __enter__(self) -> Self:
        self._marshal.start()
        return self

    def __exit__(self, *_exc: object) -> None:
        self._stop.set()
        self._marshal.join(1.0)
        for _worker in self._workers:
            self._waiting.put(None)

    def said(self) -> str:
        """Return how far it is."""
        lost = sum(bool(shot.error) for shot in tuple(self.taken))
        return f"{self.sent} of {self.due} sent, {lost} lost"

    def _fire(self) -> None:
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
            error = _fire_one(target, shot, self._order.timeout_s)
            latency_s = self._clock.now_s() - due_s
            with self._lock:
                self.taken.append(Shot(target.instance, shot.model, latency_s, error))
                self._idle += 1
                if len(self.taken) == self.due:
                    self.over.set()


def _fire_one(target: VerifyTarget, shot: Canary, timeout_s: float) -> str:
    """Send one request; return why it was lost, or nothing."""
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
    """Return Triton's own words out of an answer that is not a 200."""
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
    """Return the models to ask: those of the order, else each that is READY somewhere."""
    served = dict.fromkeys(_served(status))
    for model in order.models:
        if model not in served and served:
            step = did_you_mean(model, served) or f"Served models: {', '.join(served)}."
            found = f"no ready instance serves the model '{model}'"
            raise NotFoundError(found, where=status["name"], next_step=step)
    if not served and not order.models:
        found = "no instance says which models it serves"
        raise NotFoundError(found, where=status["name"], next_step="Name one with --model.")
    return order.models or tuple(served)


def _served(status: Status) -> Iterator[str]:
    for item in status.get("instances", ()):
        for model in item.get("models", ()):
            if model["state"] == "READY" and item["state"] == "ready":
                yield model["name"]


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
