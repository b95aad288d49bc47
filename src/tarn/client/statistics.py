"""The statistics of a fleet, in the shape that one Triton gives. Pure."""

from collections.abc import Iterable, Mapping
from typing import Any

__all__ = ["summed"]

Json = dict[str, Any]

_NAMES = ("name", "version")
_LATEST = ("last_inference",)


def summed(said: Iterable[Mapping[str, Any]]) -> Json:
    """Return the sum of what each instance said.

    Counters and memory are added, ``last_inference`` is the latest, batches are matched by their
    size; models are matched by name and version.
    """
    models: dict[tuple[str, str], Json] = {}
    for one in said:
        for model in one.get("model_stats", ()):
            key = (str(model.get("name", "")), str(model.get("version", "")))
            models[key] = _both(models[key], model) if key in models else model
    return {"model_stats": list(models.values())}


def _both(a: Mapping[str, Any], b: Mapping[str, Any]) -> Json:
    return {name: _value(name, a.get(name), b.get(name)) for name in (*a, *(set(b) - set(a)))}


def _value(name: str, a: Any, b: Any) -> Any:
    if a is None or b is None or name in _NAMES:
        return b if a is None else a
    if name in _LATEST:
        return max(a, b)
    if isinstance(a, Mapping) and isinstance(b, Mapping):
        return _both(a, b)
    if isinstance(a, list) and isinstance(b, list):
        return _matched(a, b)
    return a if isinstance(a, str | bool) else a + b


_KEYS = ("batch_size", "type", "id")


def _matched(a: list[Any], b: list[Any]) -> list[Any]:
    """Add the entries of two lists that are about the same batch size or memory."""
    found: dict[tuple[Any, ...], Any] = {}
    for entry in (*a, *b):
        about = {name: entry[name] for name in _KEYS if name in entry}
        key = tuple(about.items())
        found[key] = {**_both(found[key], entry), **about} if key in found else entry
    return list(found.values())
