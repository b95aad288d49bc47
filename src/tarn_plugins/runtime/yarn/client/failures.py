"""Errors on their way from the child process to its client: parts in JSON, and back. Pure."""

from collections.abc import Mapping
from typing import Any

from tarn import errors
from tarn.errors import NotAuthorizedError, ProviderError, TarnError

__all__ = ["pack", "unpack"]

_PARTS = ("found", "code", "where", "right", "next_step")
_CLASSES: Mapping[str, type[TarnError]] = {
    kind.__name__: kind
    for kind in (
        TarnError,
        errors.ConfigError,
        errors.RefusedError,
        ProviderError,
        errors.LaunchError,
        errors.StorageError,
        errors.NotFoundError,
        errors.UnreachableError,
        errors.TimedOutError,
    )
}
"""What a child raises; any other class arrives as the nearest of its bases among these."""


def pack(error: TarnError) -> dict[str, Any]:
    """Return the parts of *error* as JSON can hold them."""
    kind = next(k.__name__ for k in type(error).__mro__ if k.__name__ in _CLASSES)
    packed: dict[str, Any] = {"class": kind, **{part: getattr(error, part) for part in _PARTS}}
    if isinstance(error, ProviderError):
        packed |= {"provider": error.provider, "retry_after_s": error.retry_after_s}
    if isinstance(error, NotAuthorizedError):
        packed["found"] = str(error)
    return packed


def unpack(packed: Mapping[str, Any]) -> TarnError:
    """Return the error that `pack` took apart: the same class, with the same parts."""
    kind = _CLASSES.get(str(packed.get("class")), TarnError)
    parts = {part: str(packed.get(part, "")) for part in _PARTS}
    found = parts.pop("found")
    if issubclass(kind, ProviderError):
        after_s = packed.get("retry_after_s")
        return kind(str(packed.get("provider", "yarn")), found, retry_after_s=after_s, **parts)
    return kind(found, **parts)
