"""The signals that a policy reads, by their origin."""

import re
from collections.abc import Collection, Iterable, Iterator

import attrs

from tarn.domain.signals import SIGNALS
from tarn.plain import Problem, did_you_mean, shown

__all__ = ["SignalNeeds", "family_of", "needs", "problems"]

# Prefix of a metric whose name is not Triton's own, such as one that a model exports.
_EXPLICIT = "metric/"
# Source: Prometheus, "Data model", metric names.
_FAMILY = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*")
_GPU_MEMORY = re.compile(r"(nv_)?gpu_memory_.*")


@attrs.frozen
class SignalNeeds:
    """The signals that a policy reads."""

    plugins: tuple[str, ...] = ()
    """Signals of plugins."""
    metrics: tuple[tuple[str, str], ...] = ()
    """(signal, family of Triton's metrics of which it is the sum)."""
    names: tuple[str, ...] = ()
    """Every signal, built-in ones included."""


def family_of(name: str) -> str | None:
    """Return the family of Triton's metrics that *name* means, or None."""
    # "nv_..." is Triton's own, and one with a colon ("vllm:...") is a back end's. Any other is
    # written "metric/NAME", so that a misspelt signal is not taken for a metric.
    family = name.removeprefix(_EXPLICIT)
    if _FAMILY.fullmatch(family) is None:
        return None
    plain = family.startswith("nv_") or ":" in family
    return family if plain or name.startswith(_EXPLICIT) else None


def needs(names: Iterable[str], offered: Collection[str]) -> SignalNeeds:
    """Sort *names*, which `problems` accepts; *offered* are the signals of plugins."""
    every = tuple(dict.fromkeys(names))
    others = [name for name in every if name not in SIGNALS]
    families = ((name, family_of(name)) for name in others if name not in offered)
    return SignalNeeds(
        tuple(name for name in others if name in offered),
        tuple((name, family) for name, family in families if family is not None),
        every,
    )


def problems(names: Iterable[str], offered: Collection[str], where: str) -> Iterator[Problem]:
    """Yield the problems of the signals that a policy reads.

    Args:
        names: The signals, as the policy's factory returns them.
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
