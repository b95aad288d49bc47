"""What YAML 1.1 and YAML 1.2 make of text without quotes. Pure.

PyYAML reads YAML 1.1, where ``010`` is 8, ``12:30:00`` is 45000 and ``off`` is false. Most other
programs, and people, read YAML 1.2. Where the two differ nobody can tell what was meant, so such
text is refused, and `text_of` writes it in quotes.
"""

import datetime as dt
import math
import re
from collections.abc import Callable, Mapping
from typing import Any

import yaml

from tarn.plain import Doubtful

__all__ = ["read_plain", "text_of"]

_WORDS: Mapping[str, Any] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}
_NUMBERS: tuple[tuple[re.Pattern[str], Callable[[str], float]], ...] = (
    (re.compile(r"[-+]?[0-9]+"), int),
    (re.compile(r"0o[0-7]+"), lambda text: int(text, 0)),
    (re.compile(r"0x[0-9a-fA-F]+"), lambda text: int(text, 0)),
    (re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?"), float),
    (re.compile(r"[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)"), lambda t: float(t.replace(".", ""))),
)
_LONGEST = 4000
"""Digits: Python refuses to read longer numbers."""


def read_plain(text: str) -> Any:
    """Return the value of *text* without quotes; a `Doubtful` where YAML 1.1 reads another one."""
    value = _core(text)
    try:
        older = _older(text)
    except ValueError:  # a date that no calendar has, a number without digits
        return Doubtful(text, "no value at all", _words(value), _written(value))
    if older is _MARK:
        return Doubtful(text, "a special mark", _words(value))
    if type(older) is type(value) and (older == value or _both_nan(older, value)):
        return value
    right = tuple(dict.fromkeys((*_written(older), *_written(value))))
    return Doubtful(text, _words(older), _words(value), right)


def text_of(plain: object, *, flow: bool | None = False) -> str:
    """Return *plain* as YAML that YAML 1.1 and YAML 1.2 read alike."""
    made: str = yaml.dump(
        plain, Dumper=_Dumper, sort_keys=False, allow_unicode=True, default_flow_style=flow,
        width=10**6,
    )  # fmt: skip
    return made


class _Dumper(yaml.SafeDumper):
    """Puts text in quotes that one of the two would not read as text."""


def _represent_text(dumper: yaml.SafeDumper, text: str) -> yaml.Node:
    doubtful = isinstance(read_plain(text), Doubtful) or not text.isprintable()
    style = '"' if doubtful else None  # PyYAML itself puts the rest of what is not text in quotes
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _represent_text)

_MARK = object()
_RESOLVER = yaml.SafeLoader("")
"""Asked for tags and single values only: it keeps nothing of them."""
_TAG = "tag:yaml.org,2002:"


def _core(text: str) -> Any:
    """Return what the core schema of YAML 1.2 (section 10.3.2) makes of *text*."""
    if text in _WORDS:
        return _WORDS[text]
    if len(text) <= _LONGEST:
        for pattern, number in _NUMBERS:
            if pattern.fullmatch(text):
                return number(text)
    return text


def _older(text: str) -> Any:
    """Return what YAML 1.1 makes of *text*; `_MARK` where it is neither text nor a value."""
    if len(text) > _LONGEST:
        return text
    tag: str = _RESOLVER.resolve(yaml.ScalarNode, text, (True, False))  # type: ignore[no-untyped-call]
    if tag in {f"{_TAG}merge", f"{_TAG}value"}:
        return _MARK
    construct = yaml.SafeLoader.yaml_constructors.get(tag)
    if construct is None:  # '*', '&', '!': marks of their own, which a file cannot have as values
        return text
    return construct(_RESOLVER, yaml.ScalarNode(tag, text))


def _both_nan(one: object, other: object) -> bool:
    return all(isinstance(each, float) and math.isnan(each) for each in (one, other))


def _words(value: object) -> str:
    match value:
        case str():
            return "text"
        case bool():
            return "true" if value else "false"
        case dt.date():
            return "a date"
        case None:
            return "null"
    return f"{value}"


def _written(value: object) -> tuple[str, ...]:
    """Return how *value* is written so that both read it alike; nothing for text and dates."""
    return () if isinstance(value, str | dt.date) else (_words(value),)
