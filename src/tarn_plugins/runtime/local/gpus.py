"""GPUs of this machine: which are ours, and which are free. Pure; `tarn.triton.gpus` finds them."""

from collections.abc import Iterable, Mapping, Sequence

__all__ = ["allocate", "lacks", "visible"]


def allocate(present: Sequence[str], taken: Iterable[str], count: int) -> tuple[str, ...] | None:
    """Return *count* UUIDs of *present* that are not *taken*, in order; None: not enough free.

    What is taken and no longer present (a GPU that fell off the bus) counts for nothing.
    """
    held = frozenset(taken)
    free = [uuid for uuid in present if uuid not in held]
    return tuple(free[:count]) if len(free) >= count else None


def lacks(count: int, present: int, held: Mapping[str, int]) -> str:
    """Say why *count* GPUs of the *present* ones cannot be given: ``0 of 1 free (a-0001 has it)``.

    Args:
        count: How many are needed.
        present: How many there are for this fleet.
        held: How many of them each instance has.
    """
    having = {name: many for name, many in sorted(held.items()) if many}
    free = max(0, present - sum(having.values()))
    needs = f"needs {count} GPU{'' if count == 1 else 's'}; {free} of {present} free"
    if not having:
        return needs
    if len(having) == 1 and present == 1:
        return f"{needs} ({next(iter(having))} has it)"
    return f"{needs} ({', '.join(f'{name} has {many}' for name, many in having.items())})"


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
