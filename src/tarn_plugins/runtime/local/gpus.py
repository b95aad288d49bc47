"""GPUs of this machine: which there are, which are ours, and which are free."""

import importlib.util
from collections.abc import Iterable, Sequence

__all__ = ["allocate", "present", "visible"]


def allocate(present: Sequence[str], taken: Iterable[str], count: int) -> tuple[str, ...] | None:
    """Return *count* UUIDs of *present* that are not *taken*, in order; None: not enough free.

    Pure. What is taken and no longer present (a GPU that fell off the bus) counts for nothing.
    """
    held = frozenset(taken)
    free = [uuid for uuid in present if uuid not in held]
    return tuple(free[:count]) if len(free) >= count else None


def visible(present: Sequence[str], setting: str | None) -> tuple[str, ...]:
    """Return those of *present* that ``CUDA_VISIBLE_DEVICES`` leaves to this process. Pure.

    *setting* is its value: indices or UUIDs (a beginning is enough), cut at the first that names
    none, as CUDA does; None: all. Source: CUDA C++ Programming Guide, environment variables.
    """
    if setting is None:
        return tuple(present)
    found: list[str] = []
    for word in (part.strip() for part in setting.split(",")):
        if word.isdecimal():
            named = list(present)[int(word) : int(word) + 1]
        else:
            named = [uuid for uuid in present if word and uuid.startswith(word)]
        if len(named) != 1:
            break
        found += named
    return tuple(found)


def present() -> tuple[str, ...]:
    """Return the UUIDs of the machine's GPUs in the driver's order; empty without any."""
    if importlib.util.find_spec("pynvml") is None:
        return ()
    import pynvml  # noqa: PLC0415 (optional, and only a machine with GPUs needs it)

    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError:
        return ()
    try:
        handles = map(pynvml.nvmlDeviceGetHandleByIndex, range(pynvml.nvmlDeviceGetCount()))
        return tuple(_text(pynvml.nvmlDeviceGetUUID(handle)) for handle in handles)
    finally:
        pynvml.nvmlShutdown()


def _text(uuid: str | bytes) -> str:
    """Older bindings answer bytes."""
    return uuid.decode() if isinstance(uuid, bytes) else uuid
