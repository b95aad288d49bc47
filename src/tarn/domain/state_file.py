"""The saved form of a master's state, wherever a runtime keeps it. Pure; made by cattrs.

Not part of ``tarn.domain``'s front: who never reads or writes a state never loads cattrs.
"""

import json
from collections.abc import Callable, Iterable
from typing import Any

import attrs
from cattrs.errors import BaseValidationError
from cattrs.preconf.json import make_converter

from tarn.domain.epoch import Epoch
from tarn.domain.state import SCHEMA, SavedState
from tarn.errors import TarnError

__all__ = ["StateFile", "newest", "written"]

_converter = make_converter()


@attrs.frozen
class StateFile:
    """One saved state."""

    name: str
    where: str
    """Its whole path, for messages."""
    read: Callable[[], bytes]
    """Returns its content; an ``OSError`` makes it one that cannot be read."""


def written(state: SavedState, epoch: Epoch) -> bytes:
    """Return what a file of *state* holds."""
    document = {"schema": SCHEMA, "epoch": str(epoch), "state": _converter.unstructure(state)}
    return json.dumps(document, separators=(",", ":")).encode()


def newest(files: Iterable[StateFile]) -> tuple[SavedState | None, tuple[str, ...]]:
    """Return the first of *files* that can be read, and an alert for each before it.

    Raises:
        TarnError: One before it has a newer schema (code TARN-1007).
    """
    alerts: list[str] = []
    for file in files:
        try:
            state = _parse(file)
        except (OSError, ValueError, KeyError, TypeError, BaseValidationError) as error:
            alerts.append(f"{file.name} could not be read ({_first_line(error)})")
        else:
            return state, tuple(f"{alert}; {file.name} was used" for alert in alerts)
    return None, tuple(f"{alert}; nothing older is left" for alert in alerts)


def _parse(file: StateFile) -> SavedState:
    document = _document(file.read())
    schema = document["schema"]
    if schema > SCHEMA:
        raise TarnError(
            f"schema {schema} was written by a newer TARN; this one knows up to {SCHEMA}",
            code="TARN-1007",
            where=file.where,
            next_step="Use the newer TARN, or end the cluster with it first",
        )
    return _converter.structure(document["state"], SavedState)


def _document(data: bytes) -> Any:
    try:
        return json.loads(data)
    except RecursionError as error:  # a damaged disk may hold anything
        raise ValueError("it is nested too deeply") from error


def _first_line(error: Exception) -> str:
    lines = str(error).splitlines()
    return lines[0] if lines else type(error).__name__
