"""The kinds of providers, and the names of providers that come with later parts."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Protocol

__all__ = ["COMING", "KINDS", "Provider", "instead"]

KINDS: Mapping[str, str] = MappingProxyType(
    {
        "runtime": "tarn_runtimes",
        "storage": "tarn_storages",
        "discovery": "tarn_discoveries",
        "authorizer": "tarn_authorizers",
        "affinity": "tarn_affinities",
        "scaling": "tarn_scaling_policies",
        "secrets": "tarn_secret_stores",
        "signal": "tarn_signals",
    }
)
"""The hook of each kind of provider; a kind is the spec's key, if it has one."""

COMING: Mapping[tuple[str, str], str] = MappingProxyType(
    {
        ("runtime", "skein"): "SKEIN",
    }
)
"""Providers that the documentation names and this version lacks, with the part that has them."""

# Names that are not providers although users try them, with an explanation.
_NONE: Mapping[tuple[str, str], str] = MappingProxyType(
    {
        ("discovery", "knox"): (
            "Knox finds the fleet through HAProxy or ZooKeeper: see `tarn lb knox config`"
        ),
    }
)


class Provider(Protocol):
    """The fields that every factory has."""

    @property
    def summary(self) -> str:
        """One line for `tarn plugins`."""
        ...

    @property
    def requires(self) -> tuple[str, ...]:
        """The modules that it needs."""
        ...

    @property
    def extra(self) -> str:
        """The extra of the distribution with these modules."""
        ...


def instead(kind: str, name: str) -> str:
    """Return why no plugin offers *name*, or '' if that is unknown."""
    part = COMING.get((kind, name))
    later = f"not in this version: comes with the part {part}" if part else ""
    return later or _NONE.get((kind, name), "")
