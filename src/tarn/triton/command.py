"""The command line of one tritonserver, and checks of a spec for it. Pure; no shell is used."""

import ipaddress
import math
import re
from collections.abc import Iterator, Mapping

from tarn.domain import ClusterSpec, Endpoint, Launch
from tarn.domain.endpoint import bracketed
from tarn.interfaces import Finding
from tarn.triton import response_cache, restricted

__all__ = ["OWNED", "argv", "findings"]

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
"""Options that have their own key in the spec, which ``triton.args`` must not contradict."""

# How often Triton measures GPUs and pinned memory; counters of requests are always exact.
METRICS_INTERVAL_MS = 1000

# Options without a value: ``=true`` would be an error.
_SWITCHES = frozenset({"disable-auto-complete-config", "help"})

# Options whose values are independent groups: the user's are added to ours.
_ADDED = frozenset(restricted.LAUNCH_OPTIONS)

# Options that collect ``key=value``: the user's are added to ours, and win for an equal key.
_KEYED = frozenset({"backend-config", "metrics-config", "cache-config", "trace-config"})


def argv(  # noqa: PLR0913 (what differs between two instances, by keyword)
    launch: Launch,
    endpoint: Endpoint,
    binary: str,
    *,
    bind: str,
    server_id: str = "",
    backend_directory: str | None = None,
    cache_directory: str | None = None,
    shm_prefix: str = "",
) -> list[str]:
    """Return the arguments that start one tritonserver, *binary* first.

    ``triton.args`` of *launch* replace our options: a list repeats the option, None drops ours.
    Options such as ``backend-config`` are merged by key, and groups of restricted parts are added.
    The list contains the instance's key for these parts, so it must not be logged. It is for a
    single rank; runtimes refuse several.

    Args:
        launch: What to serve, and how.
        endpoint: The three ports; its host is the address for others, not the bound one.
        binary: Path or name of tritonserver.
        bind: Address of all three services.
        server_id: Triton's ``--id``, the id of the instance.
        backend_directory: The folder of backends; None for Triton's default.
        cache_directory: The folder of response caches; None for Triton's default.
        shm_prefix: Prefix of the names of the Python backend's shared memory.
    """
    ours = {**dict(_ours(launch, endpoint, bind)), **dict(restricted.ours(launch, server_id))}
    if server_id:
        ours["id"] = (server_id,)
    if backend_directory is not None:
        ours["backend-directory"] = (backend_directory,)
    if cache_directory is not None and response_cache.is_configured(launch.triton):
        ours[response_cache.FOLDER_OPTION] = (cache_directory,)
    if shm_prefix:
        ours["backend-config"] = (f"python,shm-region-prefix-name={shm_prefix}",)
    merged = _merge(ours, launch.triton.args)
    return [binary, *(_render(name, value) for name, values in merged.items() for value in values)]


def _ours(launch: Launch, endpoint: Endpoint, bind: str) -> Iterator[tuple[str, tuple[str, ...]]]:
    gpus = launch.instance.resources.gpus
    yield "model-repository", (launch.repository,)
    # One bad model must not end the server, or turn its health into 400: the master decides about
    # readiness for each model.
    yield "exit-on-error", ("false",)
    yield "strict-readiness", ("false",)
    yield "model-control-mode", (launch.models.control,)
    if launch.models.control == "explicit":
        yield "load-model", launch.models.serve or ("*",)
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
        # Pinned memory is for copies to a GPU; without one it only causes a warning.
        yield "pinned-memory-pool-byte-size", ("0",)
    yield from response_cache.options(launch.triton.cache)
    yield "exit-timeout-secs", (str(math.ceil(launch.triton.exit_timeout_s)),)


def _address(service: str, bind: str) -> str:
    if ":" not in bind:
        return bind
    # An IPv6 address. With brackets, or bare, Triton's HTTP servers listen at 255.255.255.255 or
    # not at all, without an error (seen on Triton 2.51).
    return bracketed(bind) if service == "grpc" else f"ipv6:{bind}"


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
        # At the end of the list, as an addition to ours.
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


_HOST = re.compile(r"(?=.{1,253}\.?$)(?:[A-Za-z0-9_](?:[A-Za-z0-9_-]{0,62})(?:\.|$))+")


def findings(spec: ClusterSpec, bind: str) -> Iterator[Finding]:
    """Yield what a runtime must refuse before it starts anything, and notes for people.

    *bind* is the address where instances listen; empty for the address of their node.
    """
    ranks = spec.instance.parallelism.ranks
    if ranks > 1:
        yield Finding(
            "TARN-2004",
            "instance.parallelism",
            f"tensor x pipeline = {ranks}; instances of several ranks come with the parts GPU and "
            "MODELS, not in this version",
            "Remove it",
        )
    for name in spec.triton.args:
        key = OWNED.get(name.lstrip("-").replace("_", "-"))
        if key is not None:
            yield Finding(
                "TARN-2003",
                f"triton.args.{name}",
                f"is set by {key}",
                f"Set {key} and remove it here",
            )
    if spec.triton.bind is not None and not _is_host(spec.triton.bind):
        yield Finding(
            "TARN-2002",
            f"triton.bind = '{spec.triton.bind}'",
            "is neither an address nor the name of a host",
            "Write an address, such as 127.0.0.1 or 0.0.0.0 for all, or leave it out",
        )
    yield from response_cache.findings(spec.triton)
    yield from restricted.findings(spec, bind)


def _is_host(text: str) -> bool:
    """Return whether *text* is an address or a name; 999.1.1.1 is neither."""
    try:
        ipaddress.ip_address(text)
    except ValueError:
        last = text.rstrip(".").rpartition(".")[2]
        return bool(_HOST.fullmatch(text)) and not last.isdigit()
    return True
