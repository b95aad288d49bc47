"""Triton's control API: loads, unloads, settings, and the repository index. Pure.

Measured on Triton 2.51: a load answers when the model is READY or has failed, an unload and a
change of settings at once. A trace setting of null restores the server's value. An unknown log
setting is accepted and ignored.

How a Triton is emptied, with ``--model-control-mode=explicit``:

- The answer to an unload comes at once (2 ms), and a second unload changes nothing. The model is
  UNLOADING until its last request has ended, including waiting ones, and then, for a Python model,
  1.3 s more. New requests get 404. Its counters vanish with it.
- A busy ensemble is safe: unloading one of its models makes that one UNLOADING, and its requests
  still find all of them.
- A busy Python model that calls another one (business logic scripting) is not: when that one is
  unloaded, the call fails, and so does the request.

About SIGTERM, in any mode: waiting and executing requests end, those of calling models too, and
Triton exits with 0 some 2 s after the last one. But one open HTTP connection, idle or not, delays
the exit until ``--exit-timeout-secs`` (8 s given: 8.2 s taken, exit code 1), when executing
requests are cut. So this time is not suitable for a drain: with the length of ``drain.timeout``,
every instance with one idle client would stay that long. And if a SIGKILL follows at once, as on
YARN, there is no such time.

Source of the index: Triton ``docs/protocol/extension_model_repository.md``, "Index".
"""

import json
import re
from collections.abc import Iterable
from typing import Any
from urllib.parse import quote

import attrs

from tarn.domain.control_calls import CallKind, ControlCall
from tarn.domain.reading import NOT_LOADED, ModelState
from tarn.triton.metrics import REQUEST_US, SUCCESS, TritonMetrics
from tarn.triton.stubs import PREFIX, StubEnd

__all__ = ["MOST_BYTES", "failure_in", "first", "parse_index", "path", "question", "stubs_ended"]

_LONGEST_ERROR = 1024


def question(call: ControlCall) -> tuple[str, str, bytes]:
    """Return (path, part of Triton's API, body) of the POST for *call*."""
    name = quote(call.model, safe="")
    match call.kind:
        case CallKind.LOAD | CallKind.UNLOAD:
            parameters = json.loads(call.body)
            body = json.dumps({"parameters": parameters} if parameters else {}).encode()
            return f"/v2/repository/models/{name}/{call.kind}", "model-repository", body
        case CallKind.TRACE:
            where = f"/v2/models/{name}/trace/setting" if call.model else "/v2/trace/setting"
            return where, "trace", call.body.encode()
        case CallKind.LOG:
            return "/v2/logging", "logging", call.body.encode()


def failure_in(status: int, body: bytes) -> str:
    """Return Triton's message about a call that was not done."""
    try:
        said = json.loads(body)
    except (ValueError, RecursionError):
        said = None
    error = said.get("error") if isinstance(said, dict) else None
    if not isinstance(error, str) or not error.strip():
        error = body[:_LONGEST_ERROR].decode(errors="replace")
    return f"{status} {' '.join(error.split())[:_LONGEST_ERROR]}".strip()


def first(ready: Iterable[str], seen: TritonMetrics | None) -> str:
    """Return which of the *ready* models to unload next, after the one before is gone.

    Args:
        ready: Names of models, at least one.
        seen: The newest scrape; None if there is none.
    """
    # Triton does not tell which model calls another one, but requests of the caller take longer
    # than the calls that they wait for. So models with unknown durations go first, and then the one
    # with the longest mean.
    duration_us = {} if seen is None else seen.by_label(REQUEST_US, "model")
    count = {} if seen is None else seen.by_label(SUCCESS, "model")

    def mean_us(model: str) -> float:
        ended = count.get(model, 0.0)
        return duration_us.get(model, 0.0) / ended if ended else float("inf")

    return min(ready, key=lambda model: (-mean_us(model), model))


def path(model: str) -> str:
    """Return the path of the request that unloads *model*."""
    return f"/v2/repository/models/{quote(model, safe='')}/unload"


MOST_BYTES = 1 << 20
"""Of an index: ten thousand models, or a few hundred with long reasons."""

_UNAVAILABLE = "UNAVAILABLE"
_STUB_ENDED = re.compile(
    re.escape(PREFIX) + r"(\d{1,10}):(-?\d{1,3}):(\d{1,12}):([^:]{0,255}):([^:]{0,255})"
)
# Characters; every view of the fleet and every event about the model contains the reason.
_LONGEST_REASON = 4096


def parse_index(body: bytes) -> tuple[ModelState, ...]:
    """Return each model of a repository index once, sorted by name.

    The state is that of the highest version that is not UNAVAILABLE, else of the highest version. A
    model in the repository that was never loaded has no state in the index: it becomes
    ``UNAVAILABLE`` with the reason ``not loaded``. Entries for `stubs_ended` are skipped.

    Raises:
        ValueError: *body* is not such an index.
    """
    best: dict[str, tuple[tuple[bool, int], ModelState]] = {}
    ready: dict[str, list[str]] = {}
    for row in _rows(body):
        model = _state(row)
        if model.name.startswith(PREFIX):
            continue
        if model.state == "READY":
            ready.setdefault(model.name, []).append(str(row.get("version") or ""))
        rank = (model.state != _UNAVAILABLE, _number(row.get("version")))
        if model.name not in best or rank > best[model.name][0]:
            best[model.name] = (rank, model)
    return tuple(
        sorted(
            attrs.evolve(model, versions=tuple(sorted(ready.get(model.name, ()), key=_number)))
            for _, model in best.values()
        )
    )


def _rows(body: bytes) -> list[dict[str, Any]]:
    try:
        rows = json.loads(body)
    except RecursionError as error:
        raise ValueError("nested too deeply") from error
    if not isinstance(rows, list):
        raise ValueError("not a list")  # noqa: TRY004 (bad data, not a bad argument)
    if not all(isinstance(row, dict) and isinstance(row.get("name"), str) for row in rows):
        raise ValueError("an entry without a name")
    return rows


def _state(row: dict[str, Any]) -> ModelState:
    state = str(row.get("state") or _UNAVAILABLE)
    reason = str(row.get("reason") or ("" if row.get("state") else NOT_LOADED))
    if len(reason) > _LONGEST_REASON:
        reason = f"{reason[:_LONGEST_REASON]} …"
    return ModelState(row["name"], state, reason)


def stubs_ended(body: bytes) -> tuple[StubEnd, ...]:
    """Return the ended processes of Python models in a repository index.

    `tarn.triton.stubs` puts them there.

    Raises:
        ValueError: *body* is not such an index.
    """
    if PREFIX.encode() not in body:
        return ()
    found = (_STUB_ENDED.fullmatch(row["name"]) for row in _rows(body))
    return tuple(
        StubEnd(model, name, int(pid), int(code), float(at))
        for pid, code, at, model, name in (match.groups() for match in found if match)
    )


def _number(version: object) -> int:
    text = str(version or "")
    return int(text) if text.isdecimal() else -1
