"""GPUs of this machine: which are ours, and which are free. Pure; `tarn.triton.gpus` finds them."""

from collections.abc import Iterable, Sequence

__all__ = ["allocate", "visible"]


def allocate(present: Sequence[str], taken: Iterable[str], count: int) -> tuple[str, ...] | None:
    """Return *count* UUIDs of *present* that are not *taken*, in order; None: not enough free.

    What is taken and no longer present (a GPU that fell off the bus) counts for nothing.
    """
    held = frozenset(taken)
    free = [uuid for uuid in present if uuid not in held]
    return tuple(free[:count]) if len(free) >= count else None


def visible(present: Sequence[str], setting: str | None) -> tuple[str, ...]:
    """Return those of *present* that ``CUDA_VISIBLE_DEVICES`` leaves to this process.

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
