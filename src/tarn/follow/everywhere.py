"""Control calls to a whole fleet, and waiting until every serving instance has done one."""

import json
import uuid
from collections.abc import Callable, Mapping
from typing import Any

import attrs

from tarn.domain.control_calls import MOST_BYTES
from tarn.errors import RefusedError, TimedOutError
from tarn.interfaces import Clock
from tarn.plain.call_answers import missing_instances, named_instances

__all__ = [
    "FleetCall",
    "load",
    "log_settings",
    "trace_settings",
    "unload",
    "wait_everywhere",
]

Json = Mapping[str, Any]

LOOK_FIRST_S, LOOK_MOST_S = 0.1, 2.0
AWAY_S = 10.0


@attrs.frozen
class FleetCall:
    """A control call for every instance of a fleet; sent twice, it counts once.

    Raises:
        RefusedError: It is larger than a master accepts.
    """

    verb: str
    body: Mapping[str, object]
    request: str = attrs.field(factory=lambda: uuid.uuid4().hex)

    def __attrs_post_init__(self) -> None:
        size = len(json.dumps(self.body))
        # Checked here, since a master would close the connection while the call is being sent.
        if size > MOST_BYTES:
            raise RefusedError(
                f"the {self.verb} has {size} bytes",
                code="TARN-1165",
                right=f"At most {MOST_BYTES} bytes are kept for instances to come",
                next_step="Put configurations and files into the model repository, and load from "
                "there",
            )


def load(model: str, parameters: Mapping[str, object] | None = None) -> FleetCall:
    """Return the call that loads or reloads *model*."""
    return FleetCall("load", {"model": model, "parameters": dict(parameters or {})})


def unload(model: str, *, dependents: bool = False) -> FleetCall:
    """Return the call that unloads *model*, with *dependents* also the parts of an ensemble."""
    parameters = {"unload_dependents": True} if dependents else {}
    return FleetCall("unload", {"model": model, "parameters": parameters})


def trace_settings(settings: Mapping[str, object], model: str = "") -> FleetCall:
    """Return the call that changes trace settings, of *model* or of all models."""
    return FleetCall("trace-settings", {"model": model, "settings": dict(settings)})


def log_settings(settings: Mapping[str, object]) -> FleetCall:
    """Return the call that changes log settings."""
    return FleetCall("log-settings", {"settings": dict(settings)})


def wait_everywhere(
    number: int,
    look: Callable[[int], Json],
    clock: Clock,
    limit_s: float,
    rest: Callable[[float], object],
) -> None:
    """Return once every instance in the view has done the call *number*.

    Args:
        number: The number in the master's answer.
        look: Returns the answer of ``GET /api/v1/control?call=NUMBER``.
        clock: Monotonic seconds.
        limit_s: How long to wait.
        rest: Waits for some seconds.

    Raises:
        RefusedError: An instance refused it, or another call replaced it; the error names the
            instances, with Triton's message.
        TimedOutError: An instance in the view did not do it in time; the error names all.
    """
    # New instances do it before they serve, and so do those that are out of the view. Most of these
    # come back at once, so they get AWAY_S more.
    end_s, pause_s = clock.now_s() + limit_s, LOOK_FIRST_S
    away_s: float | None = None
    while True:
        number, missing = missing_instances(look(number), number)
        now_s = clock.now_s()
        if all(not one["in_view"] for one in missing):
            away_s = now_s + AWAY_S if away_s is None else away_s
            if not missing or now_s >= away_s:
                return
        left_s = end_s - now_s
        if left_s <= 0:
            raise TimedOutError(
                f"after {limit_s:g} s not every instance has carried out call {number}: "
                f"{named_instances(missing)}",
                next_step="The master goes on; `tarn models wanted` shows the progress",
            )
        rest(min(pause_s, left_s))
        pause_s = min(2 * pause_s, LOOK_MOST_S)
