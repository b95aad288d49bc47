"""The command line of one tritonserver. Pure: values in, a list of arguments out, never a shell."""

import math
from collections.abc import Iterator, Mapping

from tarn.domain import Endpoint, Launch
from tarn.domain.address import bracketed
from tarn.triton import restricted

__all__ = ["OWNED", "argv"]

OWNED: Mapping[str, str] = {
    "http-port": "triton.http_port",
    "grpc-port": "triton.grpc_port",
    "metrics-port": "triton.metrics_port",
    "http-address": "triton.bind",
    "grpc-address": "triton.bind",
    "metrics-address": "triton.bind",
    "model-control-mode": "models.control",
    "exit-timeout-secs": "triton.exit_timeout",
}
"""Options that have a key of their own in the spec: in ``triton.args`` they would contradict it."""

METRICS_INTERVAL_MS = 1000
"""How often Triton measures GPU and pinned memory; counters of requests are always exact."""

_SWITCHES = frozenset({"disable-auto-complete-config", "help"})
"""Options of tritonserver that take no value: ``=true`` would be an error."""

_ADDED = frozenset(restricted.LAUNCH_OPTIONS)
"""Options of which each value is a group of its own: the user's stand next to ours."""

_KEYED = frozenset({"backend-config", "metrics-config", "cache-config", "trace-config"})
"""Options that collect ``key=value``: the user's are added to ours, and win for an equal key."""


def argv(  # noqa: PLR0913 (what differs between two instances, all by keyword)
    launch: Launch,
    endpoint: Endpoint,
    binary: str,
    *,
    bind: str,
    server_id: str = "",
    backend_directory: str | None = None,
    shm_prefix: str = "",
) -> list[str]:
    """Return the arguments that start one tritonserver, *binary* first.

    ``triton.args`` of *launch* win over ours: a list repeats the option, None drops ours,
    ``backend-config`` and its like are added key by key, groups of restricted parts one by one.
    The list holds the instance's key for these parts: it is not text for a log. One rank only:
    several are the runtime's to refuse.

    Args:
        launch: What to serve, and how.
        endpoint: The three ports; its host is how others reach it, not what is bound.
        binary: tritonserver, as a path or a name.
        bind: Address of all three services.
        server_id: Triton's ``--id``, shown in its metadata; the instance's id.
        backend_directory: Where backends are; None leaves Triton's own default.
        shm_prefix: Start of the names of the Python backend's shared memory.
    """
    ours = {**dict(_ours(launch, endpoint, bind)), **dict(restricted.ours(launch, server_id))}
    if server_id:
        ours["id"] = (server_id,)
    if backend_directory is not None:
        ours["backend-directory"] = (backend_directory,)
    if shm_prefix:
        ours["backend-config"] = (f"python,shm-region-prefix-name={shm_prefix}",)
    merged = _merge(ours, launch.triton.args)
    return [binary, *(_render(name, value) for name, values in merged.items() for value in values)]


def _ours(launch: Launch, endpoint: Endpoint, bind: str) -> Iterator[tuple[str, tuple[str, ...]]]:
    gpus = launch.instance.resources.gpus
    yield "model-repository", (launch.repository,)
    # One bad model must not end the server, nor turn its health into 400: readiness is decided
    # per model by the master.
    yield "exit-on-error", ("false",)
    yield "strict-readiness", ("false",)
    yield from _models(launch)
    for service, port in (
        ("http", endpoint.http_port),
        ("grpc", endpoint.grpc_port),
        ("metrics", endpoint.metrics_port),
    ):
        yield f"{service}-address", (_address(service, bind),)
        yield f"{service}-port", (str(port),)
    yield "allow-metrics", ("true",)
    yield "allow-gpu-metrics", ("true" if gpus else "false",)
    yield "metrics-interval-ms", (str(METRICS_INTERVAL_MS),)
    if not gpus:
        # Pinned memory serves copies to a GPU; asking for it without one only logs a warning.
        yield "pinned-memory-pool-byte-size", ("0",)
    yield "exit-timeout-secs", (str(math.ceil(launch.triton.exit_timeout_s)),)


def _address(service: str, bind: str) -> str:
    """Return *bind* as one of Triton's servers takes it: they differ for an address of IPv6.

    With brackets, or bare, its HTTP servers listen at 255.255.255.255 or not at all, and say that
    all is well (seen on Triton 2.51).
    """
    if ":" not in bind:
        return bind
    return bracketed(bind) if service == "grpc" else f"ipv6:{bind}"


def _models(launch: Launch) -> Iterator[tuple[str, tuple[str, ...]]]:
    yield "model-control-mode", (launch.models.control,)
    if launch.models.control == "explicit":
        yield "load-model", launch.models.serve or ("*",)


def _merge(
    ours: Mapping[str, tuple[str, ...]], theirs: Mapping[str, object]
) -> dict[str, tuple[str, ...]]:
    merged = dict(ours)
    for raw, value in theirs.items():
        name = raw.lstrip("-").replace("_", "-")
        values = _values(name, value)
        if name in _KEYED and values:
            taken = {_key(v) for v in values}
            values = (*(v for v in merged.get(name, ()) if _key(v) not in taken), *values)
        if name in _ADDED and values:
            values = (*merged.get(name, ()), *values)
        # Last in the list: what a person wrote reads as an addition.
        merged.pop(name, None)
        merged[name] = values
    return merged


def _values(name: str, value: object) -> tuple[str, ...]:
    if value is None or (name in _SWITCHES and value is False):
        return ()
    if isinstance(value, (list, tuple)):
        return tuple(text for part in value for text in _values(name, part))
    if isinstance(value, bool):
        return ("true" if value else "false",)
    return (str(value),)


def _key(setting: str) -> str:
    return setting.partition("=")[0].replace(" ", "")


def _render(name: str, value: str) -> str:
    return f"--{name}" if name in _SWITCHES else f"--{name}={value}"
