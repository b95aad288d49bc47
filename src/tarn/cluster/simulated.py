"""The result of a simulation: a column for each quantity, and a summary."""

from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import accumulate
from typing import Any

import attrs

from tarn.domain import Decision
from tarn.plain import amount_text

__all__ = ["FLAP_S", "HEADS", "Run", "Summary", "WaitTimes", "flaps"]

FLAP_S = 600.0
"""Two opposite changes of the size within this time are a flap."""
HEADS = (
    "policy", "queue p50", "p95", "p99", "instance-hours", "most", "changes", "flaps", "lost",
)  # fmt: skip
"""The column heads of `Run.words`."""


@attrs.frozen
class WaitTimes:
    """How long requests waited, as a cumulative distribution."""

    seconds: tuple[float, ...] = attrs.field(repr=False)
    requests: tuple[float, ...] = attrs.field(repr=False)
    """How many requests waited no longer than the same item of ``seconds``."""

    @classmethod
    def of(cls, waits: Iterable[tuple[float, float]]) -> "WaitTimes":
        """Return the distribution of *waits*, which are (seconds waited, requests)."""
        ordered = sorted(waits)
        return cls(
            tuple(seconds for seconds, _ in ordered),
            tuple(accumulate(requests for _, requests in ordered)),
        )

    @property
    def total(self) -> float:
        """The number of requests."""
        return self.requests[-1] if self.requests else 0.0

    def quantile(self, share: float) -> float:
        """Return the seconds within which *share* of the requests began to execute."""
        if not self.requests:
            return 0.0
        place = bisect_left(self.requests, share * self.total)
        return self.seconds[min(place, len(self.seconds) - 1)]


@attrs.frozen
class Summary:
    """The numbers by which runs are compared."""

    queue_p50_s: float
    """Half of the requests waited no longer before they executed. Requests that found no instance
    before their timeout count with the whole timeout."""
    queue_p95_s: float
    queue_p99_s: float
    instance_hours: float
    """Over all instances that held or requested a place: requested, starting, ready, draining."""
    requests: float
    lost: float
    """Requests that timed out, or were in an instance that failed or was stopped."""
    changes: int
    """How often the desired size changed."""
    flaps: int
    """Changes followed by an opposite one within ten minutes."""
    most: int
    """The greatest desired size."""


@attrs.frozen(eq=False)
class Run:
    """The result of one policy under one load trace, step by step."""

    policy: str
    trace: str
    step_s: float
    load: tuple[float, ...] = attrs.field(repr=False)
    """Requests per second that arrived in each step."""
    desired: tuple[int, ...] = attrs.field(repr=False)
    """The size after each decision."""
    ready: tuple[int, ...] = attrs.field(repr=False)
    """Instances in the view."""
    held: tuple[int, ...] = attrs.field(repr=False)
    """Instances that request or hold a place, draining ones included: these cost."""
    queue: tuple[float, ...] = attrs.field(repr=False)
    """Requests that wait at the end of each step, inside and outside of instances."""
    queue_s: tuple[float, ...] = attrs.field(repr=False)
    """Mean wait of the requests that arrived in each step; 0 without any."""
    utilization: tuple[float, ...] = attrs.field(repr=False)
    """Mean share of busy slots over the instances in the view."""
    waits: WaitTimes = attrs.field(repr=False)
    lost: float
    decisions: tuple[Decision, ...] = attrs.field(repr=False)
    """Every change of the size with its reason, the first size included."""
    silences: Mapping[str, int] = attrs.field(factory=dict)
    """How often the policy had no answer, by reason; the size was kept each time."""
    begins_at: float = 0.0
    """Wall time of the first step: subtract it from a decision's time to get the trace's second."""
    drawn: Callable[[Sequence["Run"]], str] = attrs.field(default=lambda _runs: "", repr=False)
    """Draws runs as HTML, for a notebook."""

    @property
    def t_s(self) -> tuple[float, ...]:
        """The second at which each step begins."""
        return tuple(step * self.step_s for step in range(len(self.load)))

    @property
    def summary(self) -> Summary:
        """The numbers by which runs are compared."""
        sizes = [decision.desired for decision in self.decisions]
        moments = [decision.at for decision in self.decisions]
        return Summary(
            self.waits.quantile(0.5),
            self.waits.quantile(0.95),
            self.waits.quantile(0.99),
            sum(self.held) * self.step_s / 3600,
            self.waits.total,
            self.lost,
            max(0, len(sizes) - 1),
            flaps(moments, sizes),
            max(self.desired, default=0),
        )

    def columns(self) -> dict[str, Sequence[float]]:
        """Return the columns by name, as ``pandas.DataFrame`` takes them."""
        return {
            "t_s": self.t_s,
            "requests_per_s": self.load,
            "desired": self.desired,
            "ready": self.ready,
            "held": self.held,
            "queue": self.queue,
            "queue_s": self.queue_s,
            "utilization": self.utilization,
        }

    def plain(self) -> dict[str, Any]:
        """Return the summary and the decisions as plain data."""
        return {
            "policy": self.policy,
            "trace": self.trace,
            **attrs.asdict(self.summary),
            "silences": dict(self.silences),
            "decisions": [
                {
                    "t_s": decision.at - self.begins_at,
                    **attrs.asdict(decision, filter=lambda field, _: field.name != "at"),
                }
                for decision in self.decisions
            ],
        }

    def words(self) -> tuple[str, ...]:
        """Return the policy and its summary as a row under `HEADS`."""
        s = self.summary
        waits = (s.queue_p50_s, s.queue_p95_s, s.queue_p99_s)
        counts = (s.most, s.changes, s.flaps, s.lost)
        return (
            self.policy,
            *(amount_text(seconds, "s") for seconds in waits),
            f"{s.instance_hours:.2f}",
            *(f"{number:.0f}" for number in counts),
        )

    def __repr__(self) -> str:
        """Return the summary as one line."""
        s = self.summary
        return (
            f"<{self.policy} under {self.trace}: queue time p95 {amount_text(s.queue_p95_s, 's')}, "
            f"{s.instance_hours:.2f} instance-hours, {s.changes} changes, {s.flaps} flaps, "
            f"{s.lost:.0f} lost>"
        )

    def _repr_html_(self) -> str:
        return self.drawn([self])


def flaps(moments: Sequence[float], sizes: Sequence[int]) -> int:
    """Count the changes of *sizes* that were followed by an opposite one within `FLAP_S`.

    Only the next change counts: up, up, down is one flap. The first size is not a change.
    """
    found, previous, previous_s = 0, 0, 0.0
    for place in range(1, len(sizes)):
        direction = 1 if sizes[place] > sizes[place - 1] else -1
        if previous == -direction and moments[place] - previous_s <= FLAP_S:
            found += 1
        previous, previous_s = direction, moments[place]
    return found
