"""The signals that a policy reads, sorted by what they are made of."""

import re
from collections.abc import Collection, Iterable, Iterator

import attrs

from tarn.domain.signals import SIGNALS
from tarn.plain import Problem, did_you_mean, shown

__all__ = ["SignalNeeds", "family_of", "needs", "problems"]

_EXPLICIT = "metric/"
"""Before the name of a metric that looks like no metric of Triton: one that a model brings."""
_FAMILY = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*")
"""Source: Prometheus, "Data model", metric names."""
_GPU_MEMORY = re.compile(r"(nv_)?gpu_memory_.*")


@attrs.frozen
class SignalNeeds:
    """What a policy reads, and what of it is not always there."""

    plugins: tuple[str, ...] = ()
    """Signals of plugins."""
    metrics: tuple[tuple[str, str], ...] = ()
    """(signal, family of Triton's metrics whose sum it is)."""
    names: tuple[str, ...] = ()
    """All that it reads."""


def family_of(name: str) -> str | None:
    """Return the family of Triton's metrics that *name* means; None: it means none.

    ``nv_...`` is Triton's own, one with a colon (``vllm:...``) a back end's; any other is written
    ``metric/NAME``, so that a slip in a signal's name is not taken for a metric.
    """
    family = name.removeprefix(_EXPLICIT)
    if _FAMILY.fullmatch(family) is None:
        return None
    plain = family.startswith("nv_") or ":" in family
    return family if plain or name.startswith(_EXPLICIT) else None


def needs(names: Iterable[str], offered: Collection[str]) -> SignalNeeds:
    """Sort *names*, of which `problems` found none wrong; *offered* are the signals of plugins."""
    every = tuple(dict.fromkeys(names))
    beside = [name for name in every if name not in SIGNALS]
    families = ((name, family_of(name)) for name in beside if name not in offered)
    return SignalNeeds(
        tuple(name for name in beside if name in offered),
        tuple((name, family) for name, family in families if family is not None),
        every,
    )


def problems(names: Iterable[str], offered: Collection[str], where: str) -> Iterator[Problem]:
    """Yield what is wrong with the signals that a policy reads.

    Args:
        names: As the policy's factory says.
        offered: The signals of plugins.
        where: The key of the policy's options, for the message.
    """
    for name in dict.fromkeys(names):
        if name in SIGNALS or name in offered:
            continue
        family = family_of(name)
        if family is None:
            yield _unknown(name, offered, where)
        elif _GPU_MEMORY.fullmatch(family):
            yield _memory(name, where)


def _unknown(name: str, offered: Collection[str], where: str) -> Problem:
    known = (*SIGNALS, *sorted(offered))
    if _GPU_MEMORY.fullmatch(name):
        return _memory(name, where)
    return Problem(
        where,
        "TARN-2002",
        f": there is no signal {shown(name, '')}",
        f"One of {', '.join(known)}, or a metric of Triton by its name: nv_..., vllm:..., and any "
        f"other as {_EXPLICIT}NAME",
        did_you_mean(name, known),
    )


def _memory(name: str, where: str) -> Problem:
    return Problem(
        where,
        "TARN-2002",
        f": the signal {shown(name, '')} is GPU memory, which does not show the load: "
        "frameworks keep the memory that they once took, so it does not fall when load does",
        "A signal of the load, such as offered_load, in_flight, queue_time or gpu_utilization",
    )
