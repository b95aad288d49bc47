"""What `tarn doctor` looks at of this machine: what a start needs, thing by thing."""

import shutil
from collections.abc import Callable, Iterator
from urllib.parse import urlsplit

from tarn import descriptors
from tarn.domain import ClusterSpec
from tarn.errors import LaunchError
from tarn.interfaces import Check, CheckResult, ClientContext, Finding
from tarn.triton import binary
from tarn.triton.gpus import present
from tarn_plugins.runtime.local import checks, gpus
from tarn_plugins.runtime.local.deployer import LocalDeployer
from tarn_plugins.runtime.local.procfs import memory_mib

__all__ = ["offered", "shared_memory"]

_SHM = "/dev/shm"  # noqa: S108 (looked at, never written)
_LEAST_SHM_MIB = 64
"""What an instance may have where the spec does not say: as much as Docker gives a container."""

Findings = Iterator[Finding]


def offered(spec: ClusterSpec, context: ClientContext) -> Iterator[Check]:
    """Yield the checks of this machine for *spec*."""
    environ = context.environ

    def gpus_here() -> tuple[str, ...]:
        return gpus.visible(present(), environ.get("CUDA_VISIBLE_DEVICES"))

    yield Check(
        "tritonserver",
        "Each instance is a tritonserver, started on this machine.",
        _look(
            lambda: binary.check(spec.triton.binary, environ, context.paths.cache),
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
    """Yield the checks of what this machine has enough of, or not."""
    yield Check(
        "GPUs of this machine",
        "An instance starts only when the GPUs that it asks for are free.",
        _look(lambda: checks.gpu_findings(spec, gpus_here), lambda: _count(len(gpus_here()))),
    )
    yield Check(
        "memory of this machine",
        "Models that do not fit are killed by the kernel, or make everything slow.",
        _look(lambda: checks.memory_findings(spec, memory_mib()), lambda: f"{memory_mib()} MiB"),
    )
    yield Check(
        "open files",
        "A master needs two connections for each instance, and one for each client.",
        _look(
            lambda: checks.file_findings(spec, descriptors.most()),
            lambda: f"{descriptors.most()} may be open",
        ),
    )
    yield Check(
        "shared memory of this machine",
        "Python models keep their regions there; when it is full they do not start, or they end.",
        lambda: shared_memory(spec, shutil.disk_usage(_SHM).free),
    )


def shared_memory(spec: ClusterSpec, free: int) -> CheckResult:
    """Compare the *free* bytes of ``/dev/shm`` with what the first instances have there."""
    each_mib = spec.instance.resources.shm_mib or _LEAST_SHM_MIB
    needed_mib, free_mib = each_mib * checks.first_size(spec), free >> 20
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
    ref = LocalDeployer(context).find(spec.name)
    if ref is not None and ref.url is not None and urlsplit(ref.url).port == spec.api.port:
        return CheckResult(f"is held by the master of '{spec.name}'")
    return _look(lambda: checks.port(spec), lambda: "is free")()


def _server(spec: ClusterSpec, context: ClientContext) -> str:
    try:
        found = binary.locate(spec.triton.binary, context.environ)
    except LaunchError as error:  # removed just now
        return error.found
    if isinstance(found, binary.Wheel):
        return f"of the wheel nvidia-pytriton {found.version}"
    return found


def _count(number: int) -> str:
    return f"{number} GPU{'' if number == 1 else 's'}" if number else "none, and none is needed"
