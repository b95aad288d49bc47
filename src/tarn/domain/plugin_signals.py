"""Signals that plugins compute from scraped samples, a row of samples for each. Pure.

The simulator and a replay read them as the master does. Every answer of a plugin is checked, since
foreign code may raise, or return a wrong value.
"""

import math
from collections.abc import Callable, Mapping

import attrs

from tarn.domain.samples import Known, Sample, Unknown
from tarn.domain.scaling import FleetView
from tarn.domain.signals import KEEP, Samples

__all__ = ["WINDOW_S", "PluginSignals", "Read"]

WINDOW_S = 30.0
"""Seconds of each instance's samples that a plugin's signal sees."""

Read = Callable[[Samples, float], Sample[float]]
"""`tarn.interfaces.Signal.read`."""


@attrs.frozen(eq=False)
class PluginSignals:
    """The plugins' signals that the policy reads, and their history."""

    reads: Mapping[str, Read] = attrs.field(factory=dict)
    window_s: float = WINDOW_S
    history: Mapping[str, tuple[tuple[float, Sample[float]], ...]] = attrs.field(factory=dict)
    """Signal to (monotonic seconds, sample), oldest first; at most `KEEP` of each."""

    def looked(
        self,
        samples: Samples,
        now_s: float,
        begins: Callable[[str], None] = lambda _name: None,
    ) -> "PluginSignals":
        """Return these with one more sample of each.

        Args:
            samples: `tarn.domain.signals.Signals.samples`.
            now_s: Monotonic seconds of this look.
            begins: Called with the name of each signal before that is read.
        """
        history: dict[str, tuple[tuple[float, Sample[float]], ...]] = {}
        for name, read in self.reads.items():
            begins(name)
            row = (now_s, _checked(name, read, samples, self.window_s))
            history[name] = (*self.history.get(name, ())[1 - KEEP :], row)
        return attrs.evolve(self, history=history)

    def shown(self, view: FleetView) -> FleetView:
        """Return *view* with these signals added to its own."""
        return attrs.evolve(view, signals={**view.signals, **self.history})


def _checked(name: str, read: Read, samples: Samples, window_s: float) -> Sample[float]:
    try:
        answer: object = read(samples, window_s)
    except Exception as error:  # noqa: BLE001 (foreign code: its number is unknown, and why)
        return Unknown(f"the signal {name} raised {type(error).__name__}: {error}")
    if isinstance(answer, Unknown):
        return answer
    if not isinstance(answer, Known):
        kind = type(answer).__name__
        return Unknown(f"the signal {name} answered {kind}, neither Known nor Unknown")
    value = answer.value
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        return Unknown(f"the signal {name} says {value!r}, which is not a finite number")
    return answer
