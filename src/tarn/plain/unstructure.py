"""Frozen attrs values to plain data (as YAML shows it): the inverse of `structure`."""

import enum
from collections.abc import Mapping
from pathlib import PurePath
from typing import Any

import attrs

from tarn.plain.units import key_of, unit_of

__all__ = ["unstructure"]


def unstructure(value: Any) -> Any:
    """Return mappings, lists, text, numbers, booleans and None; quantities with their units."""
    if attrs.has(type(value)):
        return {
            key_of(field.name): _field(field.name, getattr(value, field.name))
            for field in attrs.fields(type(value))
            if field.init
        }
    if isinstance(value, Mapping):
        return {str(key): unstructure(item) for key, item in value.items()}
    if isinstance(value, frozenset | set):
        return sorted(unstructure(item) for item in value)
    if isinstance(value, list | tuple):
        return [unstructure(item) for item in value]
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
