"""The kinds of providers, and the names that come with later parts."""

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
        "scaling": "tarn_scaling_policies",
        "secrets": "tarn_secret_stores",
        "signal": "tarn_signals",
        "ceiling": "tarn_ceilings",
    }
)
"""Kind of provider (the spec's key where there is one) to the hook that offers it."""

COMING: Mapping[tuple[str, str], str] = MappingProxyType(
    {
        ("runtime", "skein"): "SKEIN",
        ("secrets", "jceks"): "SECURITY",
    }
)
"""Names that the documentation uses and this version lacks, with the part that brings them."""

_NONE: Mapping[tuple[str, str], str] = MappingProxyType(
    {
        ("discovery", "knox"): (
            "Knox finds the fleet through HAProxy or ZooKeeper: see `tarn lb knox config`"
        ),
    }
)
"""Names that sound like a provider and are none, with what is meant."""


class Provider(Protocol):
    """What every factory has in common."""

    @property
    def summary(self) -> str:
        """One line for `tarn plugins`."""
        ...

    @property
    def requires(self) -> tuple[str, ...]:
        """Modules it needs."""
        ...

    @property
    def extra(self) -> str:
        """The extra that brings them."""
        ...


def instead(kind: str, name: str) -> str:
    """Return why nobody offers *name*, where that is known: what comes later, what is meant."""
    part = COMING.get((kind, name))
    later = f"not in this version: comes with the part {part}" if part else ""
    return later or _NONE.get((kind, name), "")
