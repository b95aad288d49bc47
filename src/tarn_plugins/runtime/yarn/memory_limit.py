"""A container that took more memory than it had asked for, in YARN's words and in ours. Pure."""

import re

__all__ = ["PHYSICAL", "VIRTUAL", "exceeded"]

VIRTUAL, PHYSICAL = -103, -104
"""Of ``ContainerExitStatus``. A process may end of YARN's SIGTERM or SIGKILL before the code is
set: then it is 143 or 137, and only the diagnostics tell why."""
_BEYOND = re.compile(r"beyond (?:the )?'?(physical|virtual)'? memory limit", re.IGNORECASE)
_USAGE = re.compile(r"([\d.]+ ?[KMGT]?i?B) of ([\d.]+ ?[KMGT]?i?B) (physical|virtual) memory used")


def exceeded(code: int, diagnostics: str, key: str) -> str:
    """Return what was asked, what was used, and what to raise; '' where memory was not the cause.

    Args:
        code: The exit code of the container.
        diagnostics: What YARN said of it.
        key: Of the spec: where its memory is asked for, such as ``master.memory``.
    """
    beyond = _BEYOND.search(diagnostics)
    if code not in (VIRTUAL, PHYSICAL) and (code < 0 or beyond is None):
        return ""
    kind = {VIRTUAL: "virtual", PHYSICAL: "physical"}.get(code)
    kind = kind or (beyond[1].lower() if beyond else "physical")
    used = next(((a, b) for a, b, of in _USAGE.findall(diagnostics) if of == kind), None)
    if kind == "virtual":
        found = (
            f"it used {used[0]} of address space, and may use {used[1]}"
            if used
            else ("it used more address space than its node allows")
        )
        return f"out of virtual memory: {found}. Raise {key}, or yarn.nodemanager.vmem-pmem-ratio"
    found = (
        f"it used {used[0]} and asked for {used[1]}" if used else "it used more than it asked for"
    )
    return f"out of memory: {found}. Raise {key}"
