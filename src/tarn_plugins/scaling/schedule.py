"""The scaling policy `schedule`: another policy, within bounds that depend on the calendar.

A window begins at each time of its cron expression, in the local time of its zone, and lasts for a
fixed real time, even in the night when the clocks change. If the clock skips the start in spring,
the window begins right after the skip; if the start comes twice in autumn, the first one counts.
"""

import math
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Any
from zoneinfo import ZoneInfo

import attrs
from attrs.validators import ge, gt, min_len, optional

from tarn.domain import Choice, FleetView, Wish
from tarn.domain.counted import replicas
from tarn.hookspecs import Factory, hookimpl
from tarn.interfaces import MasterContext, ScalingPolicy

__all__ = ["SchedulePolicy", "ScheduleSettings", "Window", "tarn_scaling_policies"]

_FIELDS = 5
# More than any clock is ever set back: cronsim compares local times, and could miss a start in the
# hour that comes twice.
_AHEAD = timedelta(hours=3)


@attrs.frozen
class _Cron:
    """A validator for cron expressions."""

    right: str = (
        "five fields: minute, hour, day of month, month, day of week, such as '0 8 * * mon-fri'"
    )

    def __call__(self, _instance: Any, field: "attrs.Attribute[Any]", value: Any) -> None:
        from cronsim import CronSim, CronSimError  # noqa: PLC0415 (an extra)

        try:
            CronSim(value, datetime(2026, 1, 1, tzinfo=UTC))
        except CronSimError as error:
            raise ValueError(f"{field.name}: {error}") from error
        if len(value.split()) != _FIELDS:
            raise ValueError(f"{field.name} must be {self.right}")


@attrs.frozen
class _Zone:
    """A validator for time zones."""

    right: str = "a zone that this machine knows, such as Europe/Paris or UTC"

    def __call__(self, _instance: Any, field: "attrs.Attribute[Any]", value: Any) -> None:
        try:
            ZoneInfo(value)
        except (LookupError, OSError, ValueError) as error:
            raise ValueError(f"{field.name} must be {self.right}") from error


@attrs.frozen
class Window:
    """A period in which other bounds hold."""

    cron: str = attrs.field(validator=_Cron())
    """When it begins."""
    for_s: float = attrs.field(validator=gt(0))
    """How long it lasts, in real time."""
    min: int | None = attrs.field(default=None, validator=optional(ge(0)))
    """Fewest replicas in the window; null: the same as outside."""
    max: int | None = attrs.field(default=None, validator=optional(ge(0)))
    """Most replicas in the window, in place of the maximum outside; null: the same as outside."""

    def __attrs_post_init__(self) -> None:
        """Refuse a maximum below the minimum, and a window that changes nothing."""
        if self.min is None and self.max is None:
            raise ValueError("it has neither min nor max, so it changes nothing")
        if self.min is not None and self.max is not None and self.min > self.max:
            raise ValueError(f"max = {self.max} is below min = {self.min}; raise it or lower min")


@attrs.frozen
class ScheduleSettings:
    """The settings in ``scaling.options`` for ``use: schedule``."""

    windows: tuple[Window, ...] = attrs.field(validator=min_len(1))
    """If several windows overlap, the greatest ``min`` and the greatest ``max`` hold."""
    zone: str = attrs.field(default="UTC", validator=_Zone())
    """The time zone of the windows."""
    max: int | None = attrs.field(default=None, validator=optional(ge(0)))
    """Most replicas outside the windows; null: ``replicas.max``, which always holds."""
    inner: Choice = attrs.field(factory=lambda: Choice("target"))
    """The policy that decides within the bounds: ``use`` and ``options``."""


@attrs.frozen
class _Bounds:
    """The bounds at one moment."""

    low: int
    high: float
    until: datetime | None
    """When the first open window ends; None: no window is open."""


@attrs.frozen
class SchedulePolicy:
    """Keeps the wish of the inner policy within the bounds that hold now."""

    settings: ScheduleSettings
    inner: ScalingPolicy
    zone: tzinfo = attrs.field()

    @zone.default
    def _zone(self) -> tzinfo:
        return ZoneInfo(self.settings.zone)

    def wanted(self, fleet: FleetView) -> Wish:
        """Return the wish of the inner policy, which sees the bounds as its limits."""
        now = datetime.fromtimestamp(fleet.at, self.zone)
        bounds = self._bounds(now)
        high = int(min(fleet.limits.max, bounds.high))
        low = min(max(fleet.limits.min, bounds.low), high)
        limits = attrs.evolve(fleet.limits, min=low, max=high)
        wish = self.inner.wanted(attrs.evolve(fleet, limits=limits))
        size = fleet.desired if wish.replicas is None else wish.replicas
        bounded = int(max(bounds.low, min(size, bounds.high)))
        if bounded == size:
            return wish
        bound = "at least" if bounded > size else "at most"
        until = ""
        if bounds.until is not None:
            local = bounds.until.astimezone(self.zone)
            day = "%H:%M" if local.date() == now.date() else "%a %d %b %H:%M"
            until = f" until {local:{day}} ({self.settings.zone})"
        reason = f"{wish.reason}; the schedule wants {bound} {replicas(bounded)}{until}"
        return Wish(bounded, reason, wish.urgent and bounded > fleet.desired)

    def _bounds(self, now: datetime) -> _Bounds:
        outside = math.inf if self.settings.max is None else self.settings.max
        open_ = [(w, end) for w in self.settings.windows if (end := _end(w, now)) is not None]
        low = max((window.min or 0 for window, _ in open_), default=0)
        high = max((outside if w.max is None else w.max for w, _ in open_), default=outside)
        return _Bounds(low, max(low, high), min((end for _, end in open_), default=None))


def _end(window: Window, now: datetime) -> datetime | None:
    """Return when *window* ends if it is open; None if it is not."""
    length = timedelta(seconds=window.for_s)
    began = next((start for start in _starts(window.cron, now) if start <= now), None)
    end = None if began is None else began.astimezone(UTC) + length
    return end if end is not None and end > now else None


def _starts(cron: str, now: datetime) -> Iterator[datetime]:
    """Yield the times of *cron*, newest first, from a little after *now*."""
    from cronsim import CronSim  # noqa: PLC0415 (an extra)

    ahead = (now.astimezone(UTC) + _AHEAD).astimezone(now.tzinfo)
    for start in CronSim(cron, ahead, reverse=True):
        yield start.astimezone(UTC)


def _create(settings: ScheduleSettings, context: MasterContext) -> ScalingPolicy:
    return SchedulePolicy(settings, context.policy(settings.inner))


def _asks(settings: ScheduleSettings) -> Mapping[str, Choice]:
    return {"inner": settings.inner}


@hookimpl
def tarn_scaling_policies() -> Mapping[str, Factory[ScalingPolicy]]:
    """Offer the policy for load that depends on the time of day or the day of the week."""
    factory = Factory(
        ScheduleSettings,
        _create,
        "asks another policy, within bounds that depend on the calendar",
        ("cronsim",),
        "schedule",
        asks=_asks,
    )
    return {"schedule": factory}
