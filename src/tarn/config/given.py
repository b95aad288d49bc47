"""What was given of the Java TARN's options, as values: arguments before environment."""

import math
import re
from collections.abc import Callable, Mapping
from typing import Any

import attrs

from tarn.config.aliases import ALIASES, Alias, by_name
from tarn.errors import ConfigError
from tarn.plain import UNITS, did_you_mean, shown

__all__ = ["GivenOption", "collect"]

_DECIMAL = re.compile(r"[-+]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][-+]?[0-9]+)?")
_BLANK = " \t\r\n"
_WORDS = {"true": True, "yes": True, "on": True, "1": True}
_WORDS |= {"false": False, "no": False, "off": False, "0": False}


@attrs.frozen
class GivenOption:
    """One option with its value."""

    alias: Alias
    value: Any = attrs.field(hash=False, repr=False)
    """As the spec writes it: a duration or memory has its unit."""
    origin: str
    """``argument --min-instances`` or ``environment MIN_CONTAINERS``."""

    @property
    def is_argument(self) -> bool:
        """Whether a person gave it for this very call."""
        return self.origin.startswith("argument")


def collect(
    arguments: Mapping[str, object], environ: Mapping[str, str]
) -> tuple[dict[str, GivenOption], tuple[ConfigError, ...]]:
    """Return key to option for all that was given, and what cannot be read.

    Not given are: None, False (a flag left out), an empty list, an empty environment variable.
    """
    raw: dict[str, tuple[object, str]] = {
        alias.key: (environ[alias.env], f"environment {alias.env}")
        for alias in ALIASES
        if alias.env and environ.get(alias.env)
    }
    errors: list[ConfigError] = []
    for name, value in arguments.items():
        alias = by_name.get(str(name).replace("_", "-"))
        if alias is None:
            near = did_you_mean(name, [key for key in by_name if key.islower()])
            where = f"argument --{name}"
            errors.append(
                ConfigError("no such option", code="TARN-2001", where=where, next_step=near)
            )
        elif value is not None and value is not False and value not in ((), []):
            raw[alias.key] = (value, f"argument --{alias.long}")
    found: dict[str, GivenOption] = {}
    for key, (value, origin) in raw.items():
        try:
            found[key] = GivenOption(by_name[key], _READ[by_name[key].kind](value), origin)
        except ValueError as error:
            errors.append(_unreadable(by_name[key], value, origin, str(error)))
    return found, tuple(errors)


def _unreadable(alias: Alias, value: object, origin: str, needed: str) -> ConfigError:
    secret = alias.key in {"token", "env"}
    found = f"needs {needed}" if secret else f"needs {needed}, not {shown(value, '')}"
    return ConfigError(found, code="TARN-2002", where=origin)


def _text(value: object) -> str:
    if isinstance(value, bool | Mapping | list | tuple) or not str(value).strip():
        raise ValueError("a text that is not empty")
    return str(value)


def _integer(value: object, needed: str = "a whole number") -> int:
    text = str(value).strip(_BLANK)
    digits = text.removeprefix("-")
    if isinstance(value, bool) or not (digits.isascii() and digits.isdigit() and len(digits) < 19):  # noqa: PLR2004 (a Java long)
        raise ValueError(needed)
    _refuse_octal(digits)
    return int(text)


def _refuse_octal(digits: str) -> None:
    """Refuse ``010``: a shell and YAML 1.1 read 8, the Java TARN read 10."""
    if len(digits) > 1 and digits.startswith("0"):
        read = f" ({int(digits, 8)} or {int(digits)})" if set(digits) <= set("01234567") else ""
        raise ValueError(f"a number without a leading zero{read}")


def _number(value: object) -> float:
    text = str(value).strip(_BLANK)
    if isinstance(value, bool) or not _DECIMAL.fullmatch(text):
        raise ValueError("a number")
    _refuse_octal(text.lstrip("+-").partition(".")[0].partition("e")[0].partition("E")[0])
    number = float(text)
    if not math.isfinite(number):
        raise ValueError("a number")
    return number


def _flag(value: object) -> bool:
    word = str(value).strip(_BLANK).lower()
    if word not in _WORDS:
        raise ValueError("true or false")
    return _WORDS[word]


def _milliseconds(value: object) -> str:
    number = _integer(value, "a whole number of milliseconds, without a unit")
    if number < 0:
        raise ValueError("a whole number of milliseconds, 0 or more")
    return UNITS["_s"].format(number / 1000)


def _megabytes(value: object) -> str:
    number = _integer(value, "a whole number of MB, without a unit")
    if number < 0:
        raise ValueError("a whole number of MB, 0 or more")
    return UNITS["_mib"].format(number)


def _list(value: object) -> list[str]:
    parts = value if isinstance(value, list | tuple) else _text(value).split(",")
    return [str(part).strip() for part in parts if str(part).strip()]


def _pairs(value: object) -> dict[str, str]:
    if isinstance(value, Mapping):
        return {str(name): str(text) for name, text in value.items()}
    pairs = [value] if isinstance(value, str) else value
    result = {}
    for pair in pairs if isinstance(pairs, list | tuple) else [pairs]:
        name, equals, text = str(pair).partition("=")
        if not equals or not name:
            raise ValueError("NAME=VALUE")
        result[name] = text
    return result


_READ: Mapping[str, Callable[[object], Any]] = {
    "text": _text,
    "integer": _integer,
    "number": _number,
    "flag": _flag,
    "ms": _milliseconds,
    "mb": _megabytes,
    "list": _list,
    "pairs": _pairs,
}
