"""What came of canary inferences: pure functions over the shots, and how the report is shown."""

import math
from collections.abc import Iterable, Sequence

import attrs

from tarn.cluster import card
from tarn.cluster.table import columns

__all__ = ["RequestSummary", "Shot", "VerifyReport", "percentile", "report"]

MOST_ERRORS = 10
"""Kinds of loss that are shown; each has a count."""


@attrs.frozen
class Shot:
    """One request that was sent, and what came of it."""

    instance: str
    model: str
    latency_s: float
    """From the moment it was due, so that our own waiting counts."""
    error: str = ""
    """Why it was lost; empty when it was answered."""


@attrs.frozen
class RequestSummary:
    """The sums over some of the shots. Times in seconds, of what was answered; None of nothing."""

    instance: str
    sent: int
    answered: int
    lost: int
    slow: int
    p50_s: float | None
    p95_s: float | None
    p99_s: float | None
    most_s: float | None


@attrs.frozen
class VerifyReport:
    """What a fleet made of canary inferences."""

    cluster: str
    models: tuple[str, ...]
    rps: float
    """As it was asked for."""
    seconds: float
    slow_s: float
    """Beyond this an answer counts as slow."""
    total: RequestSummary
    instances: tuple[RequestSummary, ...]
    """One for each instance, by id."""
    errors: tuple[tuple[str, str, str, int], ...]
    """(instance, model, why it was lost, how often), the most frequent first."""

    @property
    def ok(self) -> bool:
        """Whether something was sent, and nothing was lost."""
        return self.total.sent > 0 and self.total.lost == 0

    def plain(self) -> dict[str, object]:
        """Return it for programs."""
        whole = attrs.asdict(self)
        names = ("instance", "model", "error", "count")
        errors = [dict(zip(names, error, strict=True)) for error in self.errors]
        return {"ok": self.ok, **whole, "models": list(self.models), "errors": errors}

    def __str__(self) -> str:
        """Return it for people."""
        heads = ("INSTANCE", "SENT", "ANSWERED", "LOST", "SLOW", "P50", "P95", "P99", "MAX")
        lines = [self._headline(), "", columns(heads, map(_cells, self._lines()))]
        if self.errors:
            lines.append("")
        lines += [f"{count} lost on {who} ({model}): {why}" for who, model, why, count in self._few]
        if left := len(self.errors) - len(self._few):
            lines.append(f"… and {left} more kinds of loss")
        return "\n".join(lines)

    def __repr__(self) -> str:
        """Return what a person reads: a notebook shows the last value of a cell by it."""
        return str(self)

    def _repr_html_(self) -> str:
        heads = ("instance", "sent", "answered", "lost", "slow", "p50", "p95", "p99", "max")
        lost = [(who, model, count, why) for who, model, why, count in self._few]
        return (
            card.line(self._headline(), "ready" if self.ok else "failed")
            + card.rows(heads, [_cells(line) for line in self._lines()])
            + card.rows(("instance", "model", "lost", "why"), lost)
        )

    @property
    def _few(self) -> tuple[tuple[str, str, str, int], ...]:
        return self.errors[:MOST_ERRORS]

    def _lines(self) -> tuple[RequestSummary, ...]:
        return self.instances if len(self.instances) == 1 else (*self.instances, self.total)

    def _headline(self) -> str:
        total = self.total
        slow = f", {total.slow} slower than {self.slow_s:g} s" if total.slow else ""
        sent = f"{total.sent} sent in {self.seconds:g} s to {', '.join(self.models)}"
        return f"{self.cluster}: {sent}, {total.answered} answered, {total.lost} lost{slow}"


def report(  # noqa: PLR0913 (what was asked, besides what came of it)
    cluster: str,
    shots: Sequence[Shot],
    *,
    models: Sequence[str],
    rps: float,
    seconds: float,
    slow_s: float,
) -> VerifyReport:
    """Return the report over *shots*."""
    by_instance: dict[str, list[Shot]] = {}
    kinds: dict[tuple[str, str, str], int] = {}
    for shot in shots:
        by_instance.setdefault(shot.instance, []).append(shot)
        if shot.error:
            kind = (shot.instance, shot.model, shot.error)
            kinds[kind] = kinds.get(kind, 0) + 1
    errors = sorted(((*kind, count) for kind, count in kinds.items()), key=lambda e: (-e[3], e))
    lines = [_line(name, by_instance[name], slow_s) for name in sorted(by_instance)]
    total = _line("all", shots, slow_s)
    return VerifyReport(
        cluster, tuple(models), rps, seconds, slow_s, total, tuple(lines), tuple(errors)
    )


def percentile(ordered: Sequence[float], fraction: float) -> float | None:
    """Return the smallest of *ordered* that *fraction* of them do not exceed; None of nothing."""
    return ordered[max(0, math.ceil(fraction * len(ordered)) - 1)] if ordered else None


def _line(name: str, shots: Iterable[Shot], slow_s: float) -> RequestSummary:
    every = list(shots)
    times = sorted(shot.latency_s for shot in every if not shot.error)
    return RequestSummary(
        name,
        sent=len(every),
        answered=len(times),
        lost=len(every) - len(times),
        slow=sum(time_s > slow_s for time_s in times),
        p50_s=percentile(times, 0.5),
        p95_s=percentile(times, 0.95),
        p99_s=percentile(times, 0.99),
        most_s=times[-1] if times else None,
    )


def _cells(line: RequestSummary) -> tuple[object, ...]:
    counts = (line.instance, line.sent, line.answered, line.lost, line.slow)
    return (*counts, *map(_time, (line.p50_s, line.p95_s, line.p99_s, line.most_s)))


def _time(time_s: float | None) -> str:
    if time_s is None:
        return ""
    return f"{1000 * time_s:.1f} ms" if time_s < 1 else f"{time_s:.2f} s"
