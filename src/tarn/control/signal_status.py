"""The newest of each signal, and its source: what people are shown next to a wish. Pure."""

from collections.abc import Iterator, Mapping

import attrs

from tarn.domain import Sample
from tarn.domain.signals import SIGNALS, SignalSelection

__all__ = ["SignalStatus", "signal_status"]

History = Mapping[str, tuple[tuple[float, Sample[float]], ...]]


@attrs.frozen
class SignalStatus:
    """One signal as it was seen last."""

    name: str
    sample: Sample[float]
    """Its age is that of the value when it was looked at."""
    looked_s: float
    """Monotonic second of that look."""
    unit: str
    """Empty where nobody says: of plugins, and of Triton's metrics by their name."""
    source: str
    """Its source, in words."""
    read: bool
    """Whether the policy in use looks at it."""


def signal_status(
    own: History, brought: History, kept: SignalSelection, ready: int
) -> tuple[SignalStatus, ...]:
    """Return the newest sample of each signal, those that the policy reads first.

    Args:
        own: `Signals.history`.
        brought: The histories of the signals of plugins.
        kept: What is kept because the policy reads it.
        ready: How many instances were looked at.
    """
    every = (*_own_status(own, kept, ready), *_plugin_status(brought))
    return tuple(sorted(every, key=lambda sight: not sight.read))


def _own_status(own: History, kept: SignalSelection, ready: int) -> Iterator[SignalStatus]:
    of = "1 instance" if ready == 1 else f"{ready} instances"
    for name, rows in own.items():
        looked_s, sample = rows[-1]
        known = SIGNALS.get(name)
        unit = known.unit if known is not None else ""
        what = f"metric {kept.metrics[name]}" if name in kept.metrics else "metrics"
        yield SignalStatus(name, sample, looked_s, unit, f"{what} of {of}", name in kept.reads)


def _plugin_status(brought: History) -> Iterator[SignalStatus]:
    """Yield the signals of plugins: only those that the policy reads are made at all."""
    for name, rows in brought.items():
        looked_s, sample = rows[-1]
        yield SignalStatus(name, sample, looked_s, "", "a plugin", read=True)
