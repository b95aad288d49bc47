"""Describe an attrs class as JSON Schema (draft 2020-12), or as a list of options."""

import ast
import enum
import inspect
import itertools
import textwrap
import types
from collections.abc import Mapping
from typing import Any, Literal, Union, get_args, get_origin

import attrs

from tarn.plain.structure import constraints, unstructure
from tarn.plain.units import Unit, key_of, unit_of

__all__ = ["REQUIRED", "Option", "describe", "field_docs", "options"]

_SCALARS = {int: "integer", float: "number", str: "string", bool: "boolean"}


def describe(cls: type[Any]) -> dict[str, object]:
    """Return the JSON Schema of the data that `structure` accepts for *cls*."""
    resolved = attrs.resolve_types(cls)
    docs = field_docs(cls)
    fields = [field for field in attrs.fields(resolved) if field.init]
    schema: dict[str, object] = {
        "type": "object",
        "description": (inspect.getdoc(cls) or "").partition("\n\n")[0],
        "properties": {key_of(f.name): _field(f, docs.get(f.name, "")) for f in fields},
        "additionalProperties": False,
    }
    required = [key_of(f.name) for f in fields if f.default is attrs.NOTHING]
    return {**schema, "required": required} if required else schema


def field_docs(cls: type[Any]) -> dict[str, str]:
    """Return the docstring below each field by its name; empty without the source."""
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(cls)))
    except (OSError, TypeError, SyntaxError):
        return {}
    (body,) = (node.body for node in tree.body if isinstance(node, ast.ClassDef))
    docs = {}
    for field, below in itertools.pairwise(body):
        text = below.value if isinstance(below, ast.Expr) else None
        if (
            isinstance(field, ast.AnnAssign)
            and isinstance(field.target, ast.Name)
            and isinstance(text, ast.Constant)
            and isinstance(text.value, str)
        ):
            docs[field.target.id] = inspect.cleandoc(text.value)
    return docs


def _field(field: "attrs.Attribute[Any]", doc: str) -> dict[str, object]:
    schema = _kind(field.type, unit_of(field.name))
    for constraint in constraints(field):
        schema |= constraint.schema
        if not constraint.schema and constraint.right:
            doc = f"{doc} ({constraint.right})".strip()
    if isinstance(schema.get("enum"), list) and _nullable(field.type):
        schema["enum"] = [*schema["enum"], None]  # type: ignore[misc]
    if doc:
        schema["description"] = doc
    if field.default is not attrs.NOTHING:
        default: Any = field.default
        value = default.factory() if isinstance(default, attrs.Factory) else default  # type: ignore[arg-type]
        unit = unit_of(field.name)
        quantity = unit is not None and isinstance(value, int | float)
        schema["default"] = unit.format(value) if unit and quantity else unstructure(value)
    return schema


def _nullable(kind: Any) -> bool:
    return get_origin(kind) in (Union, types.UnionType) and type(None) in get_args(kind)


def _kind(kind: Any, unit: Unit | None) -> dict[str, object]:
    if get_origin(kind) in (Union, types.UnionType):
        return _union(kind, unit)
    origin = get_origin(kind) or kind
    if unit is not None and origin in (int, float):
        return {"type": "string", "pattern": unit.pattern, "examples": unit.example.split(", ")}
    if origin in _SCALARS:
        return {"type": _SCALARS[origin]}
    if origin is Literal:
        return {"enum": list(get_args(kind))}
    if attrs.has(origin):
        return describe(origin)
    return _container(kind, origin, unit)


def _union(kind: Any, unit: Unit | None) -> dict[str, object]:
    members = [_kind(m, unit) for m in get_args(kind) if m is not type(None)]
    if len(members) > 1:
        return {"anyOf": [*members, *([{"type": "null"}] if _nullable(kind) else [])]}
    (only,) = members
    if _nullable(kind) and "type" in only:
        return {**only, "type": [only["type"], "null"]}
    return only


def _container(kind: Any, origin: Any, unit: Unit | None) -> dict[str, object]:
    if not isinstance(origin, type) or origin is object:
        return {}
    if issubclass(origin, enum.Enum):
        return {"enum": [member.value for member in origin]}
    arguments = get_args(kind)
    if issubclass(origin, Mapping):
        return {"type": "object", "additionalProperties": _kind((*arguments, Any)[1], unit)}
    if issubclass(origin, list | tuple | frozenset):
        return {"type": "array", "items": _kind((*arguments, Any)[0], unit)}
    return {"type": "string"}


REQUIRED = "required"
"""In place of a default, for an option without one."""
_BOUNDS = {"exclusiveMinimum": ">", "minimum": ">=", "exclusiveMaximum": "<", "maximum": "<="}
_WORDS = {"boolean": "true or false", "string": "text", "array": "list", "object": "mapping"}


@attrs.frozen
class Option:
    """One key that a person may write under ``options``."""

    key: str
    kind: str
    """``number > 0``, ``a duration, such as 10m``, ``'min' or 'max'``."""
    default: object
    """As it would be written; `REQUIRED` if there is none."""
    meaning: str


def options(cls: type[Any]) -> tuple[Option, ...]:
    """Return the options from which *cls* is made, in the order of its fields."""
    described: Any = describe(cls)
    required = described.get("required", ())
    fields = [field for field in attrs.fields(cls) if field.init]
    return tuple(
        Option(
            key,
            _option_kind(schema, field.name),
            REQUIRED if key in required else schema["default"],
            " ".join(schema.get("description", "").split()),
        )
        for field, (key, schema) in zip(fields, described["properties"].items(), strict=True)
    )


def _option_kind(schema: Mapping[str, Any], field_name: str) -> str:
    unit = unit_of(field_name)
    if unit is not None and "pattern" in schema:
        return f"{unit.noun}, such as {unit.example.split(', ')[0]}"
    if "enum" in schema:
        return " or ".join(repr(choice) for choice in schema["enum"])
    if "anyOf" in schema:
        some = [member for member in schema["anyOf"] if member.get("type") != "null"]
        null = ", or null" if len(some) < len(schema["anyOf"]) else ""
        return " or ".join(_option_kind(member, field_name) for member in some) + null
    types = schema.get("type", "anything")
    listed = [types] if isinstance(types, str) else types
    words = " or ".join(_WORDS.get(kind, kind) for kind in listed if kind != "null")
    bounds = [f" {sign} {schema[name]:g}" for name, sign in _BOUNDS.items() if name in schema]
    return words + " and".join(bounds) + (", or null" if "null" in listed else "")
