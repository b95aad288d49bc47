"""The checks of this machine, for `tarn up` and `tarn doctor`."""

import itertools
import shutil
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from urllib.parse import urlsplit

from tarn import descriptors
from tarn.domain import ClusterSpec
from tarn.errors import LaunchError
from tarn.interfaces import Check, CheckResult, ClientContext, Finding
from tarn.triton import binary, command, response_cache
from tarn.triton.gpus import present
from tarn_plugins.runtime.local.files import living_ref
from tarn_plugins.runtime.local.instances import visible_gpus
from tarn_plugins.runtime.local.machine import (
    LOOPBACK,
    addresses,
    holder,
    is_free,
    memory_mib,
    refusal,
)

__all__ = ["findings", "offered", "port"]

_SHM = "/dev/shm"  # noqa: S108 (looked at, never written)
# Without ``shm`` in the spec: the size that Docker gives a container.
_LEAST_SHM_MIB = 64

Findings = Iterator[Finding]


def findings(
    spec: ClusterSpec,
    environ: Mapping[str, str],
    cache: Path | None = None,
    *,
    present_gpus: Callable[[], tuple[str, ...]] = present,
    memory: Callable[[], int] = memory_mib,
) -> Iterator[Finding]:
    """Yield everything that prevents or hampers *spec* on this machine."""
    yield from command.findings(spec, spec.triton.bind or LOOPBACK)
    yield from bind(spec)
    yield from binary.check(spec.triton.binary, environ, cache)
    yield from response_cache.server_findings(spec.triton, environ)
    setting = environ.get("CUDA_VISIBLE_DEVICES")
    yield from gpu_findings(spec, lambda: visible_gpus(present_gpus(), setting))
    yield from memory_findings(spec, memory())
    yield from file_findings(spec, descriptors.most())
    yield from port(spec)
    yield from triton_ports(spec)


def triton_ports(spec: ClusterSpec) -> Iterator[Finding]:
    """Yield a note for each fixed port of Triton that is taken."""
    triton = spec.triton
    for key in ("http_port", "grpc_port", "metrics_port"):
        number = getattr(triton, key)
        if number and not is_free(triton.bind or LOOPBACK, number):
            by = holder(number) or "another program"
            yield Finding(  # not fatal: the instance gets the next free port
                "TARN-3833",
                f"triton.{key} = {number}",
                f"is in use by {by}: the first instance gets the next free port above it",
                "Choose another port, or ask for the instances where `tarn status` shows them",
                fatal=False,
            )


def file_findings(spec: ClusterSpec, may_open: int) -> Iterator[Finding]:
    """Yield a finding when *may_open* files are too few for the master."""
    few = descriptors.few(first_size(spec), may_open)
    later = few or descriptors.few(spec.replicas.max, may_open)
    if later:
        yield Finding(
            "TARN-3111",
            "ulimit -Hn",  # the hard limit, to which the master raises its soft one
            later,
            "Raise the hard limit of open files: /etc/security/limits.conf, or LimitNOFILE of a "
            "service; in a container: docker run --ulimit nofile=65536",
            fatal=bool(few),
        )


def bind(spec: ClusterSpec) -> Iterator[Finding]:
    """Yield a finding when Triton cannot listen on ``triton.bind``."""
    why = "" if spec.triton.bind is None else refusal(spec.triton.bind)
    malformed = any(one.where.startswith("triton.bind") for one in command.findings(spec, ""))
    if why and not malformed:
        yield Finding(
            "TARN-2002",
            f"triton.bind = '{spec.triton.bind}'",
            f"{why}; its addresses are {', '.join(addresses())}",
            "Write one of them, 0.0.0.0 for all, or leave it out",
        )


def port(spec: ClusterSpec) -> Iterator[Finding]:
    """Yield a finding when the fixed port of the API is taken."""
    number = spec.api.port
    if number and not is_free(LOOPBACK, number):
        by = holder(number) or "another process"
        yield Finding(
            "TARN-3103",
            f"api.port = {number}",
            f"is in use by {by}",
            "Choose another port, or 0 for a free one",
        )


def first_size(spec: ClusterSpec) -> int:
    """Return how many instances the cluster starts with."""
    return spec.replicas.min if spec.replicas.initial is None else spec.replicas.initial


def _instances(spec: ClusterSpec, do: str) -> str:
    count = first_size(spec)
    return f"1 instance {do}s" if count == 1 else f"{count} instances {do}"


def gpu_findings(spec: ClusterSpec, present: Callable[[], tuple[str, ...]]) -> Iterator[Finding]:
    """Yield a finding when this machine has too few GPUs for the first instances."""
    each = spec.instance.resources.gpus
    needed = each * first_size(spec)
    have = len(present()) if each else 0
    asked = max(needed, each)
    if needed > have or each > have:
        yield Finding(
            "TARN-3105",
            f"instance.resources.gpus = {each}",
            f"{_instances(spec, 'need')} {asked} GPU{'' if asked == 1 else 's'}; "
            f"this machine has {have or 'none'}",
            "Lower instance.resources.gpus or replicas.initial",
        )


def memory_findings(spec: ClusterSpec, have_mib: int) -> Iterator[Finding]:
    """Yield a finding when *have_mib* is too little for the first instances."""
    needed = spec.instance.resources.memory_mib * first_size(spec)
    if needed > have_mib:
        yield Finding(
            "TARN-3106",
            f"instance.resources.memory = {spec.instance.resources.memory_mib}MiB",
            f"{_instances(spec, 'ask')} for {needed} MiB; this machine has {have_mib} MiB",
            "Lower it to what an instance really needs; the local runtime does not enforce it",
            fatal=False,
        )


def offered(spec: ClusterSpec, context: ClientContext) -> Iterator[Check]:
    """Yield the checks of this machine for *spec*."""
    environ = context.environ

    def gpus_here() -> tuple[str, ...]:
        return visible_gpus(present(), environ.get("CUDA_VISIBLE_DEVICES"))

    yield Check(
        "tritonserver",
        "Each instance is a tritonserver, started on this machine.",
        _look(
            lambda: itertools.chain(
                binary.check(spec.triton.binary, environ, context.paths.cache),
                response_cache.server_findings(spec.triton, environ),
            ),
            lambda: _server(spec, context),
        ),
    )
    yield from _room(spec, gpus_here)
    if spec.api.port:
        yield Check(
            f"port {spec.api.port}",
            "The master listens there, and cannot start while another program does.",
            lambda: _port(spec, context),
        )


def _room(spec: ClusterSpec, gpus_here: Callable[[], tuple[str, ...]]) -> Iterator[Check]:
    """Yield the checks of GPUs, memory, open files and shared memory."""
    yield Check(
        "GPUs of this machine",
        "An instance starts only when the GPUs that it asks for are free.",
        _look(
            lambda: gpu_findings(spec, gpus_here),
            lambda: (
                f"{number} GPU{'' if number == 1 else 's'}"
                if (number := len(gpus_here()))
                else "none, and none is needed"
            ),
        ),
    )
    yield Check(
        "memory of this machine",
        "Models that do not fit are killed by the kernel, or make everything slow.",
        _look(lambda: memory_findings(spec, memory_mib()), lambda: f"{memory_mib()} MiB"),
    )
    yield Check(
        "open files",
        "A master needs two connections for each instance, and one for each client.",
        _look(
            lambda: file_findings(spec, descriptors.most()),
            lambda: f"{descriptors.most()} may be open",
        ),
    )
    yield Check(
        "shared memory of this machine",
        "Python models keep their regions there; when it is full they do not start, or they end.",
        lambda: shared_memory(spec, shutil.disk_usage(_SHM).free),
    )


def shared_memory(spec: ClusterSpec, free: int) -> CheckResult:
    """Compare the *free* bytes of ``/dev/shm`` with what the first instances need."""
    each_mib = spec.instance.resources.shm_mib or _LEAST_SHM_MIB
    needed_mib, free_mib = each_mib * first_size(spec), free >> 20
    if free_mib >= needed_mib:
        return CheckResult(f"{_SHM} has {free_mib} MiB free")
    few = Finding(
        "TARN-3614",
        _SHM,
        f"has {free_mib} MiB free; {each_mib} MiB for each instance make {needed_mib} MiB",
        f"mount -o remount,size={2 * needed_mib}m {_SHM}; in a container of Docker's: "
        f"docker run --shm-size={2 * needed_mib}m",
        fatal=False,
    )
    return CheckResult("", (few,))


def _look(found: Callable[[], Findings], seen: Callable[[], str]) -> Callable[[], CheckResult]:
    def look() -> CheckResult:
        findings = tuple(found())
        return CheckResult("" if findings else seen(), findings)

    return look


def _port(spec: ClusterSpec, context: ClientContext) -> CheckResult:
    ref = living_ref(context.paths.cluster(spec.name))
    if ref is not None and ref.url is not None and urlsplit(ref.url).port == spec.api.port:
        return CheckResult(f"is held by the master of '{spec.name}'")
    return _look(lambda: port(spec), lambda: "is free")()


def _server(spec: ClusterSpec, context: ClientContext) -> str:
    try:
        found = binary.locate(spec.triton.binary, context.environ)
    except LaunchError as error:  # it was removed since it was checked
        return error.found
    if isinstance(found, binary.Wheel):
        return f"of the wheel nvidia-pytriton {found.version}"
    return found
