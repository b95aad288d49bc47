"""What a support bundle is made of: one text a part, or why there is none."""

import json
from collections.abc import Callable, Iterator, Mapping

import attrs

from tarn.errors import TarnError

__all__ = ["Offer", "Part", "gathered", "left_out", "of_json", "of_text", "shape"]


@attrs.frozen
class Part:
    """One file of the bundle, or one that is missing from it."""

    path: str
    """In the archive, below its one folder."""
    what: str
    """What it tells, for the manifest."""
    text: str = attrs.field(default="", repr=False)
    cut: str = ""
    """What of it was left away, in words; empty: it is whole."""
    left_out: str = ""
    """Why it is not there; empty: it is."""


@attrs.frozen
class Offer:
    """One or more parts that can be had."""

    path: str
    what: str
    make: Callable[[], Iterator[Part] | Part]


def of_json(path: str, what: str, value: object) -> Part:
    """Return a part with *value* as indented JSON."""
    return Part(path, what, json.dumps(value, indent=2, ensure_ascii=False, default=str) + "\n")


def of_text(path: str, what: str, text: str) -> Part:
    """Return a part with *text*, which ends with a line's end."""
    return Part(path, what, text if text.endswith("\n") or not text else f"{text}\n")


def left_out(path: str, what: str, why: str) -> Part:
    """Return a part that only the manifest tells of."""
    return Part(path, what, left_out=why)


def gathered(offer: Offer) -> tuple[Part, ...]:
    """Return what comes of *offer*; whatever it raises costs this part only, and is told."""
    try:
        made = offer.make()
        return (made,) if isinstance(made, Part) else tuple(made)
    except TarnError as error:
        return (left_out(offer.path, offer.what, f"[{error.code}] {error}"),)
    except Exception as error:  # noqa: BLE001 (a bundle is wanted most where something is broken)
        why = f"gathering it raised {type(error).__name__}: {error}"
        return (left_out(offer.path, offer.what, why),)


def shape(value: object, depth: int = 6) -> object:
    """Return what *value* is made of: keys and types, how many there are, and no content."""
    if depth == 0:
        return "…"
    if isinstance(value, Mapping):
        fields = all(isinstance(key, str) and key.isidentifier() for key in value)
        if fields:
            return {key: shape(item, depth - 1) for key, item in value.items()}
        return {f"{len(value)} keys": shape(next(iter(value.values())), depth - 1)}
    if isinstance(value, list | tuple):
        return [f"{len(value)} items", *(shape(item, depth - 1) for item in value[:1])]
    return "null" if value is None else type(value).__name__
