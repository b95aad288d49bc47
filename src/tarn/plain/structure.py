"""Plain data (as YAML gives it) to frozen attrs values, with every problem found at once.

The types of the fields drive it, for the spec and for every provider's settings alike. Nothing is
converted silently: ``"3"`` is not a number, ``3`` is not text, ``yes`` is not a word. A field whose
name ends in a unit takes text with a unit.
"""

import enum
import math
import types
import typing
from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypeVar, Union, get_args, get_origin

import attrs

from tarn.plain.constraints import constraints
from tarn.plain.doubtful import Doubtful, doubt
from tarn.plain.mask import masked, secret_path
from tarn.plain.problem import BAD_VALUE, UNKNOWN_KEY, Problem, did_you_mean, join, shown
from tarn.plain.scalars import is_scalar, needs, one_of, scalar
from tarn.plain.units import Unit, key_of, unit_of

__all__ = ["structure"]

_DEEPEST = 40
"""Levels of nesting; deeper is a loop in the data, or no configuration."""
T = TypeVar("T")
_Nothing = enum.Enum("_Nothing", "INVALID")
_INVALID = _Nothing.INVALID


def structure(cls: type[T], plain: object, path: str = "") -> tuple[T | None, tuple[Problem, ...]]:
    """Return the value, or None and everything that is wrong with *plain*.

    Args:
        cls: An attrs class whose annotations are made of the types named in this module.
        plain: What YAML or JSON gives; anything else is a problem, not an exception.
        path: Dotted path at which *plain* lies, for the problems.

    Raises:
        TypeError: *cls* has a field of a type that plain data cannot give: a fault of its author.
    """
    reader = _StructureReader()
    value = reader.read(cls, plain, path, None)
    if reader.problems:
        return None, tuple(reader.problems)
    return value, ()


class _StructureReader:
    """Walks types and data side by side; collects problems instead of stopping at the first."""

    def __init__(self) -> None:
        self.problems: list[Problem] = []

    def read(self, kind: Any, value: object, path: str, unit: Unit | None, depth: int = 0) -> Any:
        """Return *value* as *kind*, or `_INVALID` after a problem was noted."""
        if depth > _DEEPEST:
            return self._bad(path, ": nested too deeply", "Is there a loop of YAML aliases?")
        if get_origin(kind) in (Union, types.UnionType):
            return self._union(kind, value, path, unit, depth)
        return self._one(kind, value, path, unit, depth)

    def _one(self, kind: Any, value: object, path: str, unit: Unit | None, depth: int) -> Any:
        """Return *value* as *kind*, which is not a union."""
        if isinstance(value, Doubtful):
            return self._note(doubt(kind, value, path, unit))
        if kind is Any or kind is object:
            return self._plain(value, path, depth)
        if get_origin(kind) is None and attrs.has(kind):
            return self._attrs(kind, value, path, depth)
        if not is_scalar(kind):
            return self._generic(kind, value, path, unit, depth)
        read = scalar(kind, value, path, unit)
        return self._note(read) if isinstance(read, Problem) else read

    def _note(self, problem: Problem) -> Any:
        self.problems.append(problem)
        return _INVALID

    def _bad(self, path: str, text: str, next_step: str = "") -> Any:
        return self._note(Problem(path, BAD_VALUE, text, "", next_step))

    def _needs(self, path: str, value: object, needed: str, next_step: str = "") -> Any:
        return self._note(needs(path, value, needed, next_step))

    # -- containers

    def _union(self, kind: Any, value: object, path: str, unit: Unit | None, depth: int) -> Any:
        members = get_args(kind)
        if value is None and type(None) in members:
            return None
        some = [member for member in members if member is not type(None)]
        if len(some) == 1:
            return self.read(some[0], value, path, unit, depth + 1)
        if isinstance(value, Doubtful):
            return self._note(doubt(object, value, path, unit))
        for member in some:
            trial = _StructureReader()
            result = trial.read(member, value, path, unit, depth + 1)
            if not trial.problems:
                return result
        return self._needs(path, value, " or ".join(_noun(member, unit) for member in some))

    def _generic(self, kind: Any, value: object, path: str, unit: Unit | None, depth: int) -> Any:
        origin = get_origin(kind) or kind
        if origin is Literal:
            known = get_args(kind)
            return value if value in known else self._note(one_of(path, value, known))
        if origin is typing.Annotated:
            return self.read(get_args(kind)[0], value, path, unit, depth)
        if isinstance(origin, type) and issubclass(origin, Mapping):
            _, of = get_args(kind) or (str, object)
            return self._mapping(of, value, path, unit, depth)
        if isinstance(origin, type) and issubclass(origin, tuple | list | Sequence | frozenset):
            of = (get_args(kind) or (object,))[0]
            items = self._items(of, value, path, unit, depth)
            make = origin if origin in (list, frozenset) else tuple
            return items if items is _INVALID else make(items)
        raise TypeError(f"{path}: plain data cannot hold a {kind!r}")

    def _mapping(self, of: Any, value: object, path: str, unit: Unit | None, depth: int) -> Any:
        if not isinstance(value, Mapping):
            return self._needs(path, value, "a mapping (key: value)")
        result = {}
        for key, item in value.items():
            if not isinstance(key, str):
                self._bad(
                    path, f": the key {shown(key, path)} is not text",
                    next_step=f'Write it in quotes: "{key}"',
                )  # fmt: skip
                continue
            result[key] = self.read(of, item, join(path, key), unit, depth + 1)
        return _INVALID if _INVALID in result.values() else result

    def _items(self, of: Any, value: object, path: str, unit: Unit | None, depth: int) -> Any:
        if not isinstance(value, list | tuple | set | frozenset):
            hint = f"Write [{value}]" if isinstance(value, str) and not secret_path(path) else ""
            return self._needs(path, value, "a list", hint)
        items = [
            self.read(of, item, join(path, index), unit, depth + 1)
            for index, item in enumerate(value)
        ]
        return _INVALID if any(item is _INVALID for item in items) else items

    def _plain(self, value: object, path: str, depth: int) -> Any:
        """Let through what YAML and JSON can both carry, and nothing else."""
        if value is None or isinstance(value, str | bool | int):
            return value
        if isinstance(value, float):
            return value if math.isfinite(value) else self._needs(path, value, "a finite number")
        if isinstance(value, Mapping):
            return self._mapping(object, value, path, None, depth)
        if isinstance(value, list | tuple):
            return self._items(object, value, path, None, depth)
        return self._needs(path, value, "text, a number, a list or a mapping", "Write it in quotes")

    # -- classes

    def _attrs(self, cls: Any, value: object, path: str, depth: int) -> Any:
        if not isinstance(value, Mapping):
            keys = ", ".join(key_of(field.name) for field in attrs.fields(cls))
            return self._needs(path, value, "a mapping", f"Its keys are: {keys}")
        cls = attrs.resolve_types(cls)
        fields = {key_of(field.name): field for field in attrs.fields(cls) if field.init}
        self._unknown_keys(value, fields, path)
        given: dict[str, object] = {}
        whole = True
        for key, field in fields.items():
            at = join(path, key)
            if key in value:
                item = self._field(field, value[key], at, depth)
                whole = whole and item is not _INVALID
                given[field.alias or field.name] = item
            elif field.default is attrs.NOTHING:
                self._bad(at, " is missing; it must be given")
                whole = False
        return self._make(cls, given, path) if whole else _INVALID

    def _unknown_keys(
        self, value: Mapping[Any, object], known: Mapping[str, Any], path: str
    ) -> None:
        for key in value:
            if key in known:
                continue
            hint = did_you_mean(key, known)
            if isinstance(key, str) and unit_of(key) and key_of(key) in known:
                unit = unit_of(key)
                example = unit.example.split(",")[0] if unit else ""
                hint = f"Write the unit with the value: '{key_of(key)}: {example}'"
            step = hint or f"Known keys: {', '.join(sorted(known)) or 'nothing'}"
            self.problems.append(
                Problem(join(path, str(key)), UNKNOWN_KEY, ": unknown key", "", step)
            )

    def _field(self, field: Any, value: object, path: str, depth: int) -> Any:
        item = self.read(field.type, value, path, unit_of(field.name), depth + 1)
        if item is _INVALID or item is None:
            return item
        for constraint in constraints(field):
            if not constraint.holds(item):
                right = f": must be {constraint.right}" if constraint.right else " is not allowed"
                step = did_you_mean(value, constraint.choices) if constraint.choices else ""
                return self._note(Problem(path, BAD_VALUE, right, "", step, shown(value, path)))
        return item

    def _make(self, cls: Any, given: Mapping[str, object], path: str) -> Any:
        try:
            return cls(**given)
        except (ValueError, TypeError) as error:
            return self._bad(path, f": {masked(str(error))}")


def _noun(kind: Any, unit: Unit | None = None) -> str:
    """Name a type in a message."""
    if unit is not None and kind in (int, float):
        return unit.noun
    if get_origin(kind) is Literal:
        return " or ".join(f"'{word}'" for word in get_args(kind))
    nouns = {int: "a whole number", float: "a number", str: "text", bool: "true or false"}
    if kind in nouns:
        return nouns[kind]
    if attrs.has(get_origin(kind) or kind):
        return "a mapping"
    origin = get_origin(kind) or kind
    return "a mapping" if isinstance(origin, type) and issubclass(origin, Mapping) else "a list"
