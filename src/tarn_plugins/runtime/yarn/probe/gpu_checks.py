"""GPUs that a container sees, against those it was given; and what an image has. Pure."""

from collections.abc import Iterator

from tarn.interfaces import CheckResult, Finding
from tarn_plugins.runtime.yarn.probe.facts import Facts
from tarn_plugins.runtime.yarn.probe.report import ProbeReport

__all__ = ["gpus", "image"]


def gpus(told: ProbeReport) -> CheckResult:
    """Compare what is visible with the allocation."""
    facts = told.facts
    if told.outcome.gpus_wait:
        return CheckResult(
            f"none was free: {told.outcome.gpus_wait}; so the GPUs of an instance could not be "
            "checked",
            known=False,
        )
    visible = _visible(facts)
    seen = (
        f"{told.outcome.gpus} allocated, {'an unknown number' if visible is None else visible} seen"
    )
    if names := facts.get("gpu_names"):
        seen += f" ({names})"
    if (cuda := facts.get("cuda_visible")) not in ("", "unset"):
        seen += f", CUDA_VISIBLE_DEVICES={cuda}"
    return CheckResult(f"{seen} on {told.node}", tuple(_gpus(told, visible)))


def _visible(facts: Facts) -> int | None:
    """Return how many GPUs a CUDA program would see."""
    count = facts.number("gpus")
    if count is None and facts.get("gpus") == "none":
        count = facts.number("gpu_devices")
    if count is None:
        return None
    named = facts.values.get("cuda_visible", "unset")
    if named == "unset":
        return count
    return min(count, len([each for each in named.split(",") if each.strip()]))


def _gpus(told: ProbeReport, visible: int | None) -> Iterator[Finding]:
    facts, where = told.facts, told.node
    if not told.outcome.gpus:
        return
    kind = told.subject.order.gpu_resource
    if facts.get("gpus") == "failed":
        yield Finding(
            "TARN-3186",
            where,
            f"nvidia-smi fails in a container: {facts.get('gpu_error') or 'without a message'}",
            "Run nvidia-smi on that node: the driver may need a reload, or its module is missing",
        )
    elif visible is not None and visible < told.outcome.gpus:
        docker = (
            "Check runtime.options.docker.gpu_runtime, and yarn.nodemanager.resource-plugins.gpu."
            "docker-plugin on the node"
            if told.subject.image
            else "Have nvidia-smi and the driver installed there, and yarn.nodemanager."
            "resource-plugins set to yarn.io/gpu"
        )
        found = f"a container that was given {told.outcome.gpus} of {kind} sees {visible}"
        yield Finding("TARN-3186", where, found, docker)
    elif visible is not None and visible > told.outcome.gpus:
        yield Finding(
            "TARN-3186",
            where,
            f"a container that was given {told.outcome.gpus} of {kind} sees {visible}: GPUs of "
            "others are not hidden from it",
            "Have yarn.nodemanager.resource.gpu's isolation switched on: LinuxContainerExecutor, "
            "module.enabled=true for gpu in container-executor.cfg, and cgroups",
            fatal=False,
        )


def image(told: ProbeReport) -> CheckResult:
    """Say whether YARN starts the image at all, and whether it can serve."""
    if told.outcome.untold:
        return CheckResult(told.outcome.untold, known=False)
    if told.outcome.failure is not None:
        found = told.outcome.failure
        return CheckResult("", (Finding("TARN-3188", found.where, found.found, found.next_step),))
    facts = told.facts
    seen = (
        f"{told.subject.image} on {told.node}: {facts.get('glibc')}, uid {facts.get('uid')}, "
        f"{facts.get('tritonserver') or 'no tritonserver'}"
    )
    return CheckResult(seen, tuple(_image(told)))


def _image(told: ProbeReport) -> Iterator[Finding]:
    facts, where = told.facts, told.node
    if facts.yes("first") is False:
        yield Finding(
            "TARN-3188",
            where,
            "the container was started without Docker, as a plain process: the node does not "
            "know, or ignores, YARN's Docker runtime",
            "Have yarn.nodemanager.container-executor.class set to the LinuxContainerExecutor and "
            "yarn.nodemanager.runtime.linux.allowed-runtimes to default,docker; or run without "
            "Docker: runtime.options.docker: null",
        )
    elif not facts.get("tritonserver"):
        yield Finding(
            "TARN-3188",
            f"triton.image = '{told.subject.image}'",
            "has no tritonserver on its PATH",
            "Name an image of Triton, such as nvcr.io/nvidia/tritonserver:24.09-py3",
        )
