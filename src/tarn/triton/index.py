"""Triton's repository index -> one state for each model. Pure.

Source: Triton ``docs/protocol/extension_model_repository.md``, "Index"; answers of Triton 2.51.
"""

import json
import re
from typing import Any

import attrs

from tarn.domain.reading import NOT_LOADED, ModelState
from tarn.triton.stubs import PREFIX, StubEnd

__all__ = ["MOST_BYTES", "parse_index", "stubs_ended"]

MOST_BYTES = 1 << 20
"""Of an index: ten thousand models, or some hundred with long reasons."""

_UNAVAILABLE = "UNAVAILABLE"
_STUB_ENDED = re.compile(
    re.escape(PREFIX) + r"(\d{1,10}):(-?\d{1,3}):(\d{1,12}):([^:]{0,255}):([^:]{0,255})"
)
_LONGEST_REASON = 4096
"""Characters: each view of the fleet, and each event about the model, holds it."""


def parse_index(body: bytes) -> tuple[ModelState, ...]:
    """Return each model of a repository index once, sorted by name.

    The highest version that is not UNAVAILABLE speaks for its model, else the highest one. A model
    that lies in the repository and was never asked for has no state in the index: it is
    ``UNAVAILABLE`` with the reason ``not loaded``. What `stubs_ended` reads is not a model.

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
    """Return the processes of Python models of which a repository index tells that they ended.

    They are not part of Triton's own index: see `tarn.triton.stubs`.

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
