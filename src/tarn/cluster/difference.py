"""Where two specs differ: pure, over the plain form of `tarn.config.dump`."""

from collections.abc import Iterator, Mapping, Sequence

__all__ = ["difference", "flat"]

_ABSENT = object()


def flat(plain: object, path: str = "") -> Iterator[tuple[str, object]]:
    """Yield (dotted path, value) of every leaf; an empty mapping or list is a leaf."""
    if isinstance(plain, Mapping) and plain:
        for key, value in plain.items():
            yield from flat(value, f"{path}.{key}" if path else str(key))
    elif isinstance(plain, Sequence) and not isinstance(plain, str) and plain:
        for index, value in enumerate(plain):
            yield from flat(value, f"{path}[{index}]")
    else:
        yield path, plain


def difference(old: object, new: object) -> tuple[str, ...]:
    """Return a line ``path: old -> new`` for each leaf that is not the same, sorted by path."""
    before, after = dict(flat(old)), dict(flat(new))
    return tuple(
        f"{path}: {_said(before, path)} -> {_said(after, path)}"
        for path in sorted(before.keys() | after.keys())
        if before.get(path, _ABSENT) != after.get(path, _ABSENT)
    )


def _said(leaves: Mapping[str, object], path: str) -> str:
    return f"{leaves[path]!r}" if path in leaves else "(not set)"
