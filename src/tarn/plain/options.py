"""A settings class as a list of options, for people: key, kind, default, meaning."""

from collections.abc import Mapping
from typing import Any

import attrs

from tarn.plain.describe import describe
from tarn.plain.units import unit_of

__all__ = ["REQUIRED", "Option", "options"]

REQUIRED = "required"
"""Stands where a default would: there is none."""
_BOUNDS = {"exclusiveMinimum": ">", "minimum": ">=", "exclusiveMaximum": "<", "maximum": "<="}
_WORDS = {"boolean": "true or false", "string": "text", "array": "list", "object": "mapping"}


@attrs.frozen
class Option:
    """One key that a person may write under ``options``."""

    key: str
    kind: str
    """``number > 0``, ``a duration, such as 10m``, ``'min' or 'max'``."""
    default: object
    """As it would be written; `REQUIRED` where it must be."""
    meaning: str


def options(cls: type[Any]) -> tuple[Option, ...]:
    """Return what *cls* can be made from, in its order."""
    described: Any = describe(cls)
    required = described.get("required", ())
    fields = [field for field in attrs.fields(cls) if field.init]
    return tuple(
        Option(
            key,
            _kind(schema, field.name),
            REQUIRED if key in required else schema["default"],
            " ".join(schema.get("description", "").split()),
        )
        for field, (key, schema) in zip(fields, described["properties"].items(), strict=True)
    )


def _kind(schema: Mapping[str, Any], field_name: str) -> str:
    unit = unit_of(field_name)
    if unit is not None and "pattern" in schema:
        return f"{unit.noun}, such as {unit.example.split(', ')[0]}"
    if "enum" in schema:
        return " or ".join(repr(choice) for choice in schema["enum"])
    if "anyOf" in schema:
        some = [member for member in schema["anyOf"] if member.get("type") != "null"]
        null = ", or null" if len(some) < len(schema["anyOf"]) else ""
        return " or ".join(_kind(member, field_name) for member in some) + null
    types = schema.get("type", "anything")
    listed = [types] if isinstance(types, str) else types
    words = " or ".join(_WORDS.get(kind, kind) for kind in listed if kind != "null")
    bounds = [f" {sign} {schema[name]:g}" for name, sign in _BOUNDS.items() if name in schema]
    return words + " and".join(bounds) + (", or null" if "null" in listed else "")
