"""Convert plain data (as from YAML) to frozen attrs classes and back, with all problems at once.

The types of the fields determine what is accepted. No value is converted silently: ``"3"`` is not a
number, ``3`` is not text, ``yes`` is not a boolean. A field whose name ends in a unit takes text
with a unit.
"""

import enum
import math
import types
import typing
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import PurePath
from typing import Any, Literal, TypeVar, Union, get_args, get_origin

import attrs

from tarn.plain.mask import MASK, masked, secret_path
from tarn.plain.problem import BAD_VALUE, UNKNOWN_KEY, Problem, did_you_mean, in_quotes, join, shown
from tarn.plain.scalars import is_scalar, needs, one_of, scalar
from tarn.plain.units import Unit, key_of, unit_of

__all__ = [
    "Constraint",
    "Doubtful",
    "constraints",
    "doubt",
    "from_record",
    "structure",
    "to_record",
    "unstructure",
]


@attrs.frozen
class Doubtful:
    """A text that YAML 1.1 and YAML 1.2 read differently; an error wherever it is."""

    text: str
    older: str
    """What YAML 1.1 reads, as a phrase."""
    newer: str
    """What YAML 1.2 reads, as a phrase."""
    right: tuple[str, ...] = ()
    """How to write each of the two values, unless it is text."""

    @property
    def found(self) -> str:
        """Both readings, as a phrase."""
        return f"YAML 1.1 reads it as {self.older}, YAML 1.2 as {self.newer}"


def doubt(kind: Any, value: Doubtful, path: str, unit: Unit | None) -> Problem:
    """Return the problem of the ambiguous *value* in place of a *kind*."""
    if secret_path(path):
        found, step = "YAML 1.1 and YAML 1.2 read it differently", "Write it in quotes"
        return Problem(path, BAD_VALUE, f": {found}", "", step, MASK)
    return Problem(path, BAD_VALUE, f": {value.found}", "", _step(kind, value, unit), value.text)


def _step(kind: Any, value: Doubtful, unit: Unit | None) -> str:
    if unit is not None:
        return f"Write {unit.noun}, for example {unit.example}"
    values = " or ".join(value.right)
    if kind is str or not values:
        return in_quotes(value.text)
    if kind in (int, float, bool):
        return f"Write {values}"
    return f'Write {values}, or "{value.text}" for text'


_WORDS = {">=": "at least", ">": "more than", "<=": "at most", "<": "less than"}
_SCHEMA = {
    ">=": "minimum",
    ">": "exclusiveMinimum",
    "<=": "maximum",
    "<": "exclusiveMaximum",
}


# Constraints are read from attributes of the validators (a bound, options, a pattern, an inner
# validator), since their classes in attrs are private.


@attrs.frozen
class Constraint:
    """One constraint on the value of a field."""

    holds: Callable[[Any], bool]
    right: str
    """The valid values, as a phrase: ``at least 1``."""
    choices: tuple[str, ...] = ()
    """All valid values, if they can be listed."""
    schema: dict[str, object] = attrs.field(factory=dict, hash=False)


def constraints(field: "attrs.Attribute[Any]") -> tuple[Constraint, ...]:
    """Return the constraints of the field's validators, which do not apply to None."""
    return tuple(_read(field.validator, field, unit_of(field.name)))


def _read(validator: Any, field: "attrs.Attribute[Any]", unit: Unit | None) -> Iterator[Constraint]:
    if validator is None:
        return
    several = getattr(validator, "_validators", None)
    inner = getattr(validator, "validator", None)
    if several is not None:
        for one in several:
            yield from _read(one, field, unit)
    elif inner is not None:
        yield from _read(inner, field, unit)
    elif hasattr(validator, "bound") and getattr(validator, "compare_op", "") in _WORDS:
        bound, operator = validator.bound, validator.compare_op
        least = unit.format(bound) if unit else f"{bound:g}"
        schema = {} if unit else {_SCHEMA[operator]: bound}
        yield Constraint(_runs(validator, field), f"{_WORDS[operator]} {least}", (), schema)
    elif hasattr(validator, "options"):
        choices = tuple(str(option) for option in validator.options)
        right = " or ".join(f"'{choice}'" for choice in choices)
        schema = {"enum": list(validator.options)}
        yield Constraint(_runs(validator, field), right, choices, schema)
    elif hasattr(validator, "pattern"):
        pattern = validator.pattern.pattern
        right = field.metadata.get("right") or f"text like {pattern}"
        yield Constraint(_runs(validator, field), right, (), {"pattern": f"^(?:{pattern})$"})
    else:  # one that is not from attrs may have a phrase `right`
        yield Constraint(_runs(validator, field), getattr(validator, "right", ""))


def _runs(validator: Any, field: "attrs.Attribute[Any]") -> Callable[[Any], bool]:
    """Return a validator as a predicate."""

    def holds(value: Any) -> bool:
        try:
            validator(None, field, value)  # attrs' own validators ignore the instance
        except (ValueError, TypeError):
            return False
        except AttributeError:
            return True  # it needs the instance, so it is called when that is created
        return True

    return holds


# Levels of nesting; no configuration is deeper, but YAML aliases can form a loop.
_DEEPEST = 40
T = TypeVar("T")
_Nothing = enum.Enum("_Nothing", "INVALID")
_INVALID = _Nothing.INVALID


def structure(cls: type[T], plain: object, path: str = "") -> tuple[T | None, tuple[Problem, ...]]:
    """Return the value, or None and every problem of *plain*.

    Args:
        cls: An attrs class with fields of the types in this module.
        plain: Data as from YAML or JSON; any other value is a problem, not an exception.
        path: Dotted path of *plain*, for the problems.

    Raises:
        TypeError: *cls* has a field of a type that plain data cannot represent.
    """
    reader = _StructureReader()
    value = reader.read(cls, plain, path, None)
    if reader.problems:
        return None, tuple(reader.problems)
    return value, ()


def from_record(cls: type[T], plain: object) -> T:
    """Return the value of the record *plain*, which `tarn.plain.to_record` made.

    Its keys are the fields' names, its numbers have no units, and unknown keys, which a newer TARN
    may have written, are ignored.

    Raises:
        ValueError: *plain* is not a record of *cls*; the message has every problem.
    """
    reader = _RecordReader()
    value: T = reader.read(cls, plain, "", None)
    if reader.problems:
        raise ValueError("; ".join(problem.found for problem in reader.problems))
    return value


class _StructureReader:
    """Reads data by types, and collects problems instead of stopping at the first."""

    def __init__(self) -> None:
        self.problems: list[Problem] = []

    def read(self, kind: Any, value: object, path: str, unit: Unit | None, depth: int = 0) -> Any:
        """Return *value* as *kind*, or `_INVALID` after recording a problem."""
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
            trial = type(self)()
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
            of = get_args(kind) or (object,)
            if origin is tuple and of[1:] not in ((), (...,)):
                return self._row(of, value, path, unit, depth)
            items = self._items(of[0], value, path, unit, depth)
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

    def _row(self, of: Any, value: object, path: str, unit: Unit | None, depth: int) -> Any:
        """Return a tuple with a type for each item."""
        if not isinstance(value, list | tuple) or len(value) != len(of):
            return self._needs(path, value, f"a list of {len(of)}")
        items = [
            self.read(kind, item, join(path, index), unit, depth + 1)
            for index, (kind, item) in enumerate(zip(of, value, strict=True))
        ]
        return _INVALID if any(item is _INVALID for item in items) else tuple(items)

    def _plain(self, value: object, path: str, depth: int) -> Any:
        """Return *value* if both YAML and JSON can represent it."""
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

    def _key(self, name: str) -> str:
        return key_of(name)

    def _unit(self, name: str) -> Unit | None:
        return unit_of(name)

    def _attrs(self, cls: Any, value: object, path: str, depth: int) -> Any:
        if not isinstance(value, Mapping):
            keys = ", ".join(self._key(field.name) for field in attrs.fields(cls))
            return self._needs(path, value, "a mapping", f"Its keys are: {keys}")
        cls = attrs.resolve_types(cls)
        fields = {self._key(field.name): field for field in attrs.fields(cls) if field.init}
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
        item = self.read(field.type, value, path, self._unit(field.name), depth + 1)
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


class _RecordReader(_StructureReader):
    """Reads a record of `to_record`."""

    def _key(self, name: str) -> str:
        return name

    def _unit(self, _name: str) -> None:
        return None

    def read(self, kind: Any, value: object, path: str, unit: Unit | None, depth: int = 0) -> Any:
        if kind is float and isinstance(value, float):
            return value  # also infinity, which is invalid in a configuration
        return super().read(kind, value, path, unit, depth)

    def _unknown_keys(self, value: object, known: object, path: str) -> None:
        pass


def _noun(kind: Any, unit: Unit | None = None) -> str:
    """Return the name of a type for messages."""
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


_AS_IT_IS = frozenset({str, int, float, bool, type(None)})


def unstructure(value: Any) -> Any:
    """Return *value* as plain data, with quantities as text with units; inverts `structure`."""
    if attrs.has(type(value)):
        return {
            key_of(field.name): _field(field.name, getattr(value, field.name))
            for field in attrs.fields(type(value))
            if field.init
        }
    return _plain(value, unstructure)


def to_record(value: Any) -> Any:
    """Return *value* as plain data by the fields' names, without units; inverts `from_record`."""
    if type(value) in _AS_IT_IS:  # first, for speed: a state is written once a second
        return value
    if attrs.has(type(value)):
        fields = attrs.fields(type(value))
        return {f.name: to_record(getattr(value, f.name)) for f in fields if f.init}
    return _plain(value, to_record)


def _plain(value: Any, inner: Callable[[Any], Any]) -> Any:
    if isinstance(value, Mapping):
        return {str(key): inner(item) for key, item in value.items()}
    if isinstance(value, frozenset | set):
        return sorted(inner(item) for item in value)
    if isinstance(value, list | tuple):
        return [inner(item) for item in value]
    if isinstance(value, enum.Enum):
        return value.value
    return str(value) if isinstance(value, PurePath) else value


def _field(name: str, value: Any) -> Any:
    unit = unit_of(name)
    if unit is not None and isinstance(value, int | float):
        return unit.format(value)
    if unit is not None and isinstance(value, list | tuple):
        return [_field(name, item) for item in value]
    if unit is not None and isinstance(value, Mapping):
        return {key: _field(name, item) for key, item in value.items()}
    return unstructure(value)
