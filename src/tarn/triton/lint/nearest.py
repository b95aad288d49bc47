"""The name that was probably meant."""

import difflib
from collections.abc import Iterable

__all__ = ["nearest"]


def nearest(name: str, known: Iterable[str]) -> str:
    """Return the name in *known* that *name* is a slip of, or nothing.

    Case and underscores do not count (``MaxBatchSize``), and a prefix such as ``TYPE_`` or
    ``KIND_`` may be missing.
    """
    names = {_plain(each): each for each in known}
    plain = _plain(name)
    if plain in names:
        return names[plain]
    ending = [each for short, each in names.items() if short.endswith(plain) and len(plain) > 1]
    if ending:
        return min(ending, key=len)
    return next((names[each] for each in difflib.get_close_matches(plain, names, n=1)), "")


def _plain(name: str) -> str:
    return name.replace("_", "").replace("-", "").lower()
