"""What would keep a cluster from starting on this machine, found before anything starts."""

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from tarn import descriptors
from tarn.domain import ClusterSpec
from tarn.interfaces import Finding
from tarn.triton import binary, settings
from tarn.triton.gpus import present as gpus_present
from tarn_plugins.runtime.local.environment import LOOPBACK
from tarn_plugins.runtime.local.gpus import visible
from tarn_plugins.runtime.local.ports import addresses, is_free, refusal
from tarn_plugins.runtime.local.procfs import holder, memory_mib

__all__ = [
    "API_ADDRESS",
    "file_findings",
    "findings",
    "first_size",
    "gpu_findings",
    "memory_findings",
    "port",
]

API_ADDRESS = "127.0.0.1"


def findings(
    spec: ClusterSpec,
    environ: Mapping[str, str],
    cache: Path | None = None,
    *,
    present_gpus: Callable[[], tuple[str, ...]] = gpus_present,
    memory: Callable[[], int] = memory_mib,
) -> Iterator[Finding]:
    """Yield everything that this machine has against *spec*."""
    yield from settings.findings(spec, spec.triton.bind or LOOPBACK)
    yield from bind(spec)
    yield from binary.check(spec.triton.binary, environ, cache)
    setting = environ.get("CUDA_VISIBLE_DEVICES")
    yield from gpu_findings(spec, lambda: visible(present_gpus(), setting))
    yield from memory_findings(spec, memory())
    yield from file_findings(spec, descriptors.most())
    yield from port(spec)
    yield from triton_ports(spec)


def triton_ports(spec: ClusterSpec) -> Iterator[Finding]:
    """Yield a note for each fixed port of Triton's that is taken: instances get the next one."""
    triton = spec.triton
    for key in ("http_port", "grpc_port", "metrics_port"):
        number = getattr(triton, key)
        if number and not is_free(triton.bind or LOOPBACK, number):
            by = holder(number) or "another program"
            yield Finding(
                "TARN-3833",
                f"triton.{key} = {number}",
                f"is in use by {by}: the first instance gets the next free port above it",
                "Choose another port, or ask for the instances where `tarn status` shows them",
                fatal=False,
            )


def file_findings(spec: ClusterSpec, may_open: int) -> Iterator[Finding]:
    """Yield a finding when *may_open* files are too few for the master that starts here.

    It raises its own soft limit to the hard one, so the hard one counts.
    """
    first = first_size(spec)
    few = descriptors.few(first, may_open)
    if few or (descriptors.few(spec.replicas.max, may_open)):
        yield Finding(
            "TARN-3111",
            "ulimit -Hn",
            few or descriptors.few(spec.replicas.max, may_open),
            "Raise the hard limit of open files: /etc/security/limits.conf, or LimitNOFILE of a "
            "service; in a container: docker run --ulimit nofile=65536",
            fatal=bool(few),
        )


def bind(spec: ClusterSpec) -> Iterator[Finding]:
    """Yield a finding when Triton could not listen where ``triton.bind`` says."""
    why = "" if spec.triton.bind is None else refusal(spec.triton.bind)
    malformed = any(one.where.startswith("triton.bind") for one in settings.findings(spec, ""))
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
    if number and not is_free(API_ADDRESS, number):
        by = holder(number) or "another process"
        yield Finding(
            "TARN-3103",
            f"api.port = {number}",
            f"is in use by {by}",
            "Choose another port, or 0 for a free one",
        )


def first_size(spec: ClusterSpec) -> int:
    """Return how many instances there are at first."""
    return spec.replicas.min if spec.replicas.initial is None else spec.replicas.initial


def _instances(spec: ClusterSpec, do: str) -> str:
    count = first_size(spec)
    return f"1 instance {do}s" if count == 1 else f"{count} instances {do}"


def _gpus(count: int) -> str:
    return "1 GPU" if count == 1 else f"{count} GPUs"


def gpu_findings(spec: ClusterSpec, present: Callable[[], tuple[str, ...]]) -> Iterator[Finding]:
    """Yield a finding when this machine has fewer GPUs than *spec* needs at first."""
    each = spec.instance.resources.gpus
    needed = each * first_size(spec)
    have = len(present()) if each else 0
    if needed > have or each > have:
        yield Finding(
            "TARN-3105",
            f"instance.resources.gpus = {each}",
            f"{_instances(spec, 'need')} {_gpus(max(needed, each))}; "
            f"this machine has {have or 'none'}",
            "Lower instance.resources.gpus or replicas.initial",
        )


def memory_findings(spec: ClusterSpec, have_mib: int) -> Iterator[Finding]:
    """Yield a finding when *have_mib* are less than *spec* asks for at first."""
    needed = spec.instance.resources.memory_mib * first_size(spec)
    if needed > have_mib:
        yield Finding(
            "TARN-3106",
            f"instance.resources.memory = {spec.instance.resources.memory_mib}MiB",
            f"{_instances(spec, 'ask')} for {needed} MiB; this machine has {have_mib} MiB",
            "Lower it to what an instance really needs; the local runtime does not enforce it",
            fatal=False,
        )
