"""Follower by follower: how far each is behind the view, and what is open through it."""

from collections.abc import Callable, Iterable, Iterator

from tarn.control.metrics.family import Family, MetricType, Sample, label
from tarn.control.snapshot import Follower, Snapshot

__all__ = ["FAMILIES"]

_Read = Callable[[Follower, Snapshot], float | None]


def _each(read: _Read) -> Callable[[Snapshot], Iterable[Sample]]:
    def samples(snapshot: Snapshot) -> Iterator[Sample]:
        for follower in snapshot.followers:
            value = read(follower, snapshot)
            if value is not None:
                yield "", _labels(follower), value

    return samples


def _labels(follower: Follower) -> str:
    required = "true" if follower.required else "false"
    return f"{label('follower', follower.name)},{label('required', required)}"


def _acknowledged(follower: Follower, _snapshot: Snapshot) -> float | None:
    return follower.revision if follower.revision >= 0 else None


def _lag(follower: Follower, snapshot: Snapshot) -> float | None:
    behind = snapshot.view.revision - max(0, follower.revision)
    return None if follower.revision < 0 and follower.age_s is None else behind


def _lag_s(follower: Follower, _snapshot: Snapshot) -> float | None:
    return None if follower.age_s is None else follower.behind_s


def _family(name: str, text: str, read: _Read) -> Family:
    return Family(name, MetricType.GAUGE, text, _each(read), ("follower", "required"))


FAMILIES = (
    _family("tarn_follower_revision", "Revision that it acknowledged last.", _acknowledged),
    _family(
        "tarn_follower_lag_revisions",
        "Revisions of the view that it has not acknowledged.",
        _lag,
    ),
    _family(
        "tarn_follower_lag_seconds",
        "For how long it has not acknowledged the newest view, seconds.",
        _lag_s,
    ),
    _family(
        "tarn_follower_age_seconds",
        "Seconds since its last message.",
        lambda follower, _snapshot: follower.age_s,
    ),
    _family(
        "tarn_follower_lost",
        "1: its lease ran out.",
        lambda follower, _snapshot: float(follower.lost),
    ),
    _family(
        "tarn_follower_failing",
        "1: it says that it cannot apply the view.",
        lambda follower, _snapshot: float(bool(follower.error)),
    ),
    _family(
        "tarn_follower_sessions",
        "Open sessions to the instances of which it counts them.",
        lambda follower, _snapshot: follower.sessions,
    ),
)
