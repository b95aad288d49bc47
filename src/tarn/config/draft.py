"""The configuration while its layers are merged: plain data, with the origin of each value."""

from collections.abc import Callable, Mapping
from pathlib import PurePath
from typing import Any

import attrs

from tarn.plain import join

__all__ = ["Draft", "FileValue", "ListItem", "Step", "copied"]

_CHOICES = ("runtime", "scaling", "authorizer", "affinity")
_LISTS = ("discovery", "secrets")
# Levels of nesting that are copied; reading deeper data raises the error.
_DEEPEST = 50
_MISSING = object()


@attrs.frozen
class ListItem:
    """A step into a list of choices, to the item with this ``use``; appended if missing."""

    use: str


Step = str | ListItem


@attrs.frozen
class FileValue:
    """A value of a file that is not text, and the text as the file has it."""

    value: Any = attrs.field(hash=False)
    text: str


def copied(
    value: object, depth: int = 0, path: str = "", texts: dict[str, str] | None = None
) -> Any:
    """Return a deep copy, in which paths become text and tuples lists.

    A `FileValue` becomes its value; its text is stored in *texts*, by dotted path.
    """
    if isinstance(value, FileValue):
        if texts is not None:
            texts[path] = value.text
        return value.value
    if depth > _DEEPEST:
        return value
    if isinstance(value, Mapping):
        return {key: copied(item, depth + 1, join(path, key), texts) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [
            copied(item, depth + 1, join(path, index), texts) for index, item in enumerate(value)
        ]
    return str(value) if isinstance(value, PurePath) else value


class Draft:
    """Plain data merged from layers, the later one first, with the origin of each value."""

    def __init__(self, plain: Mapping[str, Any], origins: Mapping[str, str]) -> None:
        self.plain: dict[str, Any] = {}
        self._origins: dict[str, str] = {}
        self._texts: dict[str, str] = {}
        self.merge(plain, lambda path: _nearest(origins, path))
        self._origins |= {"": origins.get("", "")}
        for path, origin in origins.items():  # the lines inside lists, and of unknown keys
            self._origins.setdefault(path, origin)

    def merge(self, layer: Mapping[str, Any], origin: Callable[[str], str]) -> None:
        """Merge *layer*: mappings are merged, any other value replaces the one before."""
        texts: dict[str, str] = {}
        self._merge(self.plain, _spelled_out(copied(layer, texts=texts)), "", origin)
        self._texts |= texts

    def _merge(
        self, base: dict[str, Any], layer: dict[str, Any], path: str, origin: Callable[[str], str]
    ) -> None:
        if "use" in layer and base.get("use") not in (None, layer["use"]):
            base.pop("options", None)  # those of the other provider
        for key, value in layer.items():
            at = join(path, key)
            below = base.get(key)
            if isinstance(value, dict) and isinstance(below, dict):
                self._merge(below, value, at, origin)
                continue
            self._forget(at)
            self._origins[at] = origin(at)
            if isinstance(value, dict) and len(at) < 1000:  # noqa: PLR2004 (no end of nesting)
                base[key] = {}
                self._merge(base[key], value, at, origin)
            else:
                base[key] = value

    def _forget(self, path: str) -> None:
        for known in (self._origins, self._texts):
            for old in [old for old in known if old.startswith((f"{path}.", f"{path}["))]:
                del known[old]
        self._texts.pop(path, None)

    def put(self, steps: tuple[Step, ...], value: object, origin: str) -> None:
        """Set one value, and create the mappings and lists around it."""
        holder, path = self._descend(steps[:-1], origin)
        last = steps[-1]
        if holder is None or not isinstance(last, str):
            return  # a value of another type is in the way: reading it raises the error
        at = join(path, last)
        if last == "use" and holder.get("use") not in (None, value):
            holder.pop("options", None)
        holder[last] = value
        self._forget(at)
        self._origins[at] = origin

    def _descend(self, steps: tuple[Step, ...], origin: str) -> tuple[dict[str, Any] | None, str]:
        holder: Any = self.plain
        path = ""
        for number, step in enumerate(steps):
            if isinstance(step, ListItem):
                count = len(holder)
                index, holder = _item(holder, step.use)
                path = join(path, index)
                if index == count:
                    self._origins[path] = origin
            else:
                path = join(path, step)
                inside: Any = [] if isinstance((*steps, "")[number + 1], ListItem) else {}
                if holder.get(step) is None:
                    holder[step] = inside
                    self._origins[path] = origin
                holder = holder[step]
            expected = list if isinstance((*steps, "")[number + 1], ListItem) else dict
            if not isinstance(holder, expected):
                return None, path
        return (holder, path) if isinstance(holder, dict) else (None, path)

    def get(self, path: str, default: object = None) -> Any:
        """Return the value at a dotted path of keys (no list indices), or *default*."""
        value: Any = self.plain
        for key in path.split("."):
            value = value.get(key, _MISSING) if isinstance(value, dict) else _MISSING
            if value is _MISSING:
                return default
        return value

    def discard(self, path: str) -> None:
        """Remove the value at a dotted path of keys, if it is there."""
        above, _, key = path.rpartition(".")
        holder = self.get(above) if above else self.plain
        if isinstance(holder, dict):
            holder.pop(key, None)

    def text(self, path: str) -> str | None:
        """Return the text that the file has at *path*, if that is a value without quotes."""
        return self._texts.get(path)

    def origin(self, path: str) -> str:
        """Return the origin of the value at *path*, or of the value around it."""
        return _nearest(self._origins, path)


def _nearest(origins: Mapping[str, str], path: str) -> str:
    while path and path not in origins:
        path = path[: max(path.rfind("."), path.rfind("["), 0)]
    return origins.get(path, "")


def _item(holder: list[Any], use: str) -> tuple[int, Any]:
    for index, item in enumerate(holder):
        if isinstance(item, dict) and item.get("use") == use:
            return index, item
    holder.append({"use": use})
    return len(holder) - 1, holder[-1]


def _spelled_out(layer: dict[str, Any]) -> dict[str, Any]:
    """Replace shorthands, such as ``models: path`` and ``runtime: local``."""
    if isinstance(layer.get("models"), str):
        layer["models"] = {"repository": layer["models"]}
    for key in _CHOICES:
        if isinstance(layer.get(key), str):
            layer[key] = {"use": layer[key]}
    for key in _LISTS:
        if isinstance(layer.get(key), list):
            layer[key] = [{"use": i} if isinstance(i, str) else i for i in layer[key]]
    return layer
