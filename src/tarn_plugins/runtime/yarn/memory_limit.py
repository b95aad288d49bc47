"""A container that took more memory than it had asked for, in a sentence. Pure."""

from tarn.triton.exits import PHYSICAL, VIRTUAL, memory_use

__all__ = ["exceeded"]

_KINDS = {-103: VIRTUAL, -104: PHYSICAL}
"""Of ``ContainerExitStatus``. A process may end of YARN's SIGTERM or SIGKILL before the code is
set: then it is 143 or 137, and only the diagnostics tell why."""


def exceeded(code: int, diagnostics: str, key: str, asked_mib: int | None = None) -> str:
    """Return what was asked, what was used, and what to raise; '' where memory was not the cause.

    Args:
        code: The exit code of the container.
        diagnostics: What YARN said of it.
        key: Of the spec: where its memory is asked for, such as ``master.memory``.
        asked_mib: What it was asked with; None: not known here.
    """
    kind = _KINDS.get(code)
    if code < 0 and kind is None:
        return ""
    use = memory_use(diagnostics, kind)
    if use is None and kind is None:
        return ""
    used = f"it used {use}" if use else f"it used too much {kind} memory"
    asked = "" if asked_mib is None else f" ({key} asked for {asked_mib} MiB)"
    ratio = ", or yarn.nodemanager.vmem-pmem-ratio" if VIRTUAL in (kind, use and use.kind) else ""
    return f"out of memory: {used}{asked}. Raise {key}{ratio}"
