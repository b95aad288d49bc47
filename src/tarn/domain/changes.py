"""What an update does with each key of the spec that differs. Pure."""

import enum
from collections.abc import Iterable, Iterator, Mapping

import attrs

__all__ = ["Effect", "SpecChange", "changes", "effect_of"]


class Effect(enum.StrEnum):
    """What an update does with a key that differs."""

    NOTHING = "nothing"
    """The key has no effect on a cluster that runs."""
    LIVE = "live"
    """The master takes it at once; no instance is replaced."""
    ROLLING = "rolling"
    """Instances are replaced, a few at a time."""
    REFUSED = "refused"
    """It takes a new start of the cluster."""


@attrs.frozen
class SpecChange:
    """One key of the spec that differs."""

    path: str
    """Dotted, as in ``tarn.yaml``."""
    before: object
    """None: it is not set."""
    after: object
    effect: Effect
    why: str = ""
    """Why it is refused, or has no effect."""

    def __str__(self) -> str:
        """Return ``path: before -> after``."""
        return f"{self.path}: {_shown(self.before)} -> {_shown(self.after)}"


_MASTERS = "the master reads it when it starts"
_RUNTIMES = "the runtime reads it when the master starts"
_CLIENTS = "clients and followers know the cluster by it"
# The longest prefix of a path decides.
_EFFECTS: Mapping[str, tuple[Effect, str]] = {
    "name": (Effect.REFUSED, _CLIENTS),
    "models": (Effect.ROLLING, ""),
    "triton": (Effect.ROLLING, ""),
    # An instance that runs has its keys already, and only one set is kept for the fleet.
    "triton.restricted": (Effect.REFUSED, "the keys of running instances depend on it"),
    "triton.bind": (Effect.REFUSED, _RUNTIMES),
    "triton.binary": (Effect.REFUSED, _RUNTIMES),
    "instance": (Effect.ROLLING, ""),
    "instance.start_timeout": (Effect.LIVE, ""),
    "instance.unready_after": (Effect.LIVE, ""),
    "instance.replace_after": (Effect.LIVE, ""),
    "instance.unwell": (Effect.LIVE, ""),
    "instance.test_request": (Effect.LIVE, ""),
    "instance.max_age": (Effect.LIVE, ""),
    "instance.max_rss": (Effect.LIVE, ""),
    "replicas": (Effect.LIVE, ""),
    "replicas.initial": (Effect.NOTHING, "it counts at the first start only"),
    "placement": (Effect.REFUSED, _RUNTIMES),
    "scaling": (Effect.LIVE, ""),
    "scaling.interval": (Effect.REFUSED, _MASTERS),
    "drain": (Effect.LIVE, ""),
    "update": (Effect.LIVE, ""),
    "master": (Effect.REFUSED, _RUNTIMES),
    "runtime": (Effect.REFUSED, _RUNTIMES),
    "api": (Effect.REFUSED, _CLIENTS),
    "discovery": (Effect.REFUSED, _CLIENTS),
    "authorizer": (Effect.REFUSED, _MASTERS),
    "affinity": (Effect.REFUSED, _MASTERS),
    "admins": (Effect.REFUSED, _MASTERS),
    "viewers": (Effect.REFUSED, _MASTERS),
    "secrets": (Effect.REFUSED, "their values are sent when the cluster is started"),
    "farm": (Effect.REFUSED, _MASTERS),
    "log": (Effect.REFUSED, _RUNTIMES),
}


def effect_of(path: str) -> tuple[Effect, str]:
    """Return the effect of the key at the dotted *path*, and why.

    Raises:
        LookupError: No rule covers it.
    """
    parts = path.partition("[")[0].split(".")
    for length in range(len(parts), 0, -1):
        found = _EFFECTS.get(".".join(parts[:length]))
        if found is not None:
            return found
    raise LookupError(path)


def changes(
    before: Iterable[tuple[str, object]], after: Iterable[tuple[str, object]]
) -> Iterator[SpecChange]:
    """Yield the keys that differ, by path.

    Args:
        before: Dotted path and value of each leaf of the present spec.
        after: The same of the new one.
    """
    old, new = dict(before), dict(after)
    for path in sorted(old.keys() | new.keys()):
        one, other = old.get(path), new.get(path)
        if one != other:
            yield SpecChange(path, one, other, *effect_of(path))


def _shown(value: object) -> str:
    return "(not set)" if value is None else f"{value!r}"
