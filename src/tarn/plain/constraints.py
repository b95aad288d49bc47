"""What attrs validators demand, in words and as JSON Schema.

Read from the validators by shape (a bound, a set of options, a pattern, an inner validator): attrs
gives their classes no public name.
"""

from collections.abc import Callable, Iterator
from typing import Any

import attrs

from tarn.plain.units import Unit, unit_of

__all__ = ["Constraint", "constraints"]

_WORDS = {">=": "at least", ">": "more than", "<=": "at most", "<": "less than"}
_SCHEMA = {
    ">=": "minimum",
    ">": "exclusiveMinimum",
    "<=": "maximum",
    "<": "exclusiveMaximum",
}


@attrs.frozen
class Constraint:
    """One demand on the value of a field."""

    holds: Callable[[Any], bool]
    right: str
    """What is right, in words: ``at least 1``."""
    choices: tuple[str, ...] = ()
    """All values that are right, where they can be listed."""
    schema: dict[str, object] = attrs.field(factory=dict, hash=False)


def constraints(field: "attrs.Attribute[Any]") -> tuple[Constraint, ...]:
    """Return what the field's validators demand; None is never a matter of theirs."""
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
        yield _bound(validator, field, unit)
    elif hasattr(validator, "options"):
        yield _choice(validator, field)
    elif hasattr(validator, "pattern"):
        yield _pattern(validator, field)
    else:  # one that is not of attrs may say what is right
        yield Constraint(_runs(validator, field), getattr(validator, "right", ""))


def _runs(validator: Any, field: "attrs.Attribute[Any]") -> Callable[[Any], bool]:
    """Wrap a validator: attrs' own do not look at the instance, so it may be None."""

    def holds(value: Any) -> bool:
        try:
            validator(None, field, value)
        except (ValueError, TypeError):
            return False
        except AttributeError:
            return True  # it looks at the instance: it has its say when the instance is made
        return True

    return holds


def _bound(validator: Any, field: "attrs.Attribute[Any]", unit: Unit | None) -> Constraint:
    bound, operator = validator.bound, validator.compare_op
    shown = unit.format(bound) if unit else f"{bound:g}"
    schema = {} if unit else {_SCHEMA[operator]: bound}
    return Constraint(_runs(validator, field), f"{_WORDS[operator]} {shown}", (), schema)


def _choice(validator: Any, field: "attrs.Attribute[Any]") -> Constraint:
    choices = tuple(str(option) for option in validator.options)
    right = " or ".join(f"'{choice}'" for choice in choices)
    return Constraint(_runs(validator, field), right, choices, {"enum": list(validator.options)})


def _pattern(validator: Any, field: "attrs.Attribute[Any]") -> Constraint:
    pattern = validator.pattern.pattern
    anchored = f"^(?:{pattern})$"
    right = field.metadata.get("right") or f"text like {pattern}"
    return Constraint(_runs(validator, field), right, (), {"pattern": anchored})
