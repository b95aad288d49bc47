"""A fleet as one server: control calls through the master."""

import base64
import contextlib
from collections.abc import Callable, Mapping
from typing import Any

from tarn.errors import RefusedError
from tarn.follow import FleetCall, MasterSource, wait_everywhere
from tarn.follow.everywhere import load, log_settings, trace_settings, unload
from tarn.interfaces import Clock

__all__ = ["everywhere", "load_call", "log_call", "trace_call", "unload_call"]


def load_call(
    model_name: str,
    headers: object = None,
    query_params: object = None,
    config: str | None = None,
    files: Mapping[str, bytes] | None = None,
) -> FleetCall:
    """Return the call of tritonclient's ``load_model``."""
    _ours(headers, query_params)
    parameters: dict[str, object] = {} if config is None else {"config": config}
    for path, content in (files or {}).items():
        parameters[path] = base64.b64encode(content).decode()
    return load(model_name, parameters)


def unload_call(
    model_name: str,
    headers: object = None,
    query_params: object = None,
    unload_dependents: bool = False,  # noqa: FBT001, FBT002 (tritonclient's)
) -> FleetCall:
    """Return the call of tritonclient's ``unload_model``."""
    _ours(headers, query_params)
    return unload(model_name, dependents=unload_dependents)


def trace_call(
    model_name: str | None = None,
    settings: Mapping[str, Any] | None = None,
    headers: object = None,
    query_params: object = None,
) -> FleetCall:
    """Return the call of tritonclient's ``update_trace_settings``."""
    _ours(headers, query_params)
    return trace_settings(settings or {}, model_name or "")


def log_call(
    settings: Mapping[str, Any], headers: object = None, query_params: object = None
) -> FleetCall:
    """Return the call of tritonclient's ``update_log_settings``."""
    _ours(headers, query_params)
    return log_settings(settings)


def everywhere(
    source: MasterSource,
    call: FleetCall,
    clock: Clock,
    limit_s: float,
    rest: Callable[[float], object],
) -> None:
    """Send *call* through the master; return once every instance in the view has done it.

    Raises:
        RefusedError: Some instances refused it; the error names each, with Triton's message.
        TimedOutError: Some instances did not do it within *limit_s*.
        NotAuthorizedError: The user may not administer the fleet.
    """
    with contextlib.closing(source.open()) as api:
        number = int(api.call_all(call)["call"])
        wait_everywhere(number, api.control, clock, limit_s, rest)


def _ours(headers: object, query_params: object) -> None:
    if headers or query_params:
        raise RefusedError(
            "the master sends control calls itself, so headers and query_params reach no Triton",
            next_step="Leave them out; the master has the keys of restricted APIs",
        )
