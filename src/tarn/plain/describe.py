"""An attrs class as JSON Schema (draft 2020-12), with the docstrings under its fields."""

import ast
import enum
import inspect
import itertools
import textwrap
import types
from collections.abc import Mapping
from typing import Any, Literal, Union, get_args, get_origin

import attrs

from tarn.plain.constraints import constraints
from tarn.plain.units import Unit, key_of, unit_of
from tarn.plain.unstructure import unstructure

__all__ = ["describe", "field_docs"]

_SCALARS = {int: "integer", float: "number", str: "string", bool: "boolean"}


def describe(cls: type[Any]) -> dict[str, object]:
    """Return the schema of what `structure` accepts for *cls*."""
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
    """Return field name to the docstring under it; empty where the source cannot be read."""
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
        schema["default"] = _default(field)
    return schema


def _default(field: "attrs.Attribute[Any]") -> object:
    default: Any = field.default
    value = default.factory() if isinstance(default, attrs.Factory) else default  # type: ignore[arg-type]
    unit = unit_of(field.name)
    if unit is not None and isinstance(value, int | float):
        return unit.format(value)
    return unstructure(value)


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
