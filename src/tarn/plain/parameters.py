"""Types of command-line arguments with plain error messages: names and numbers."""

import math
from typing import Any

import click

from tarn.plain.text import not_empty

__all__ = ["NAME", "NameType", "NumberType", "WholeType"]

# A longer number is a mistake.
_MOST_DIGITS = 18


class NameType(click.ParamType):  # type: ignore[type-arg]  # click 8.1 takes no argument
    """A name that is not empty: an unset shell variable must not mean "any"."""

    name = "name"

    def convert(self, value: Any, param: click.Parameter | None, _ctx: click.Context | None) -> str:
        """Return *value* unless it is empty."""
        where = "" if param is None else param.opts[0] if param.opts[0][:1] == "-" else ""
        return not_empty(str(value), where or (param.human_readable_name if param else ""))


NAME = NameType()


class WholeType(click.IntRange):
    """A whole number between bounds."""

    name = "number"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Return *value* if it is a whole number between the bounds."""
        text = str(value).strip()
        digits = text.removeprefix("-")
        if not (digits.isascii() and digits.isdigit() and len(digits) <= _MOST_DIGITS):
            self.fail(f"'{value}' is not a whole number, such as {self.min or 1}", param, ctx)
        number = int(text)
        if self.min is not None and number < self.min:
            self.fail(f"{number} is too small; it must be at least {self.min}", param, ctx)
        if self.max is not None and number > self.max:
            self.fail(f"{number} is too large; it must be at most {self.max}", param, ctx)
        return number


class NumberType(click.FloatRange):
    """A finite number between bounds."""

    name = "number"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """Return *value* if it is a finite number between the bounds."""
        try:
            number = float(value)
        except ValueError:
            number = math.nan
        if not math.isfinite(number):
            self.fail(f"'{value}' is not a number, such as {min(20, self.max or 20):g}", param, ctx)
        if self.min is not None and number < self.min:
            self.fail(f"{value} is too small; it must be at least {self.min:g}", param, ctx)
        if self.max is not None and number > self.max:
            self.fail(f"{value} is too large; it must be at most {self.max:g}", param, ctx)
        return number
