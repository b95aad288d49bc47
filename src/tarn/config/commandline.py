"""A command line of the Java TARN, read as its own parser read it. Nothing is executed."""

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence

import attrs

from tarn.config.aliases import ALIASES, Alias
from tarn.errors import ConfigError

__all__ = ["Command", "read", "split"]

_CLIENT = re.compile(r"(?:[\w.]+\.)?yarn\.Client")
_ASSIGNMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*=", re.ASCII)
_STARTERS = frozenset({"yarn", "hadoop", "java"})
_OPERATORS = ";|&<>"
_DONE = object()

_SHORT = {alias.short: alias for alias in ALIASES if alias.short}
_LONG = {alias.long: alias for alias in ALIASES if alias.long}


@attrs.frozen
class Command:
    """What a command line gave."""

    options: Mapping[str, object] = attrs.field(hash=False, repr=False)
    """Long name to value: text, True for a flag, a list for what may be repeated."""
    environ: Mapping[str, str] = attrs.field(hash=False, repr=False)
    """The ``NAME=VALUE`` words before the command."""
    notes: tuple[str, ...] = ()
    """What was left out, and why, a line each."""


def split(text: str) -> list[str]:
    """Return the words of *text* as a shell would; variables and commands in it stay text.

    Raises:
        ConfigError: A quote is not closed.
    """
    whole = re.sub(r"\\\r?\n", "", text)
    lexer = shlex.shlex(whole, posix=True, punctuation_chars=_OPERATORS)
    lexer.whitespace_split = True
    lexer.commenters = ""
    try:
        return list(lexer)
    except ValueError as error:
        raise ConfigError("a quote is not closed", code="TARN-2002", where="command") from error


def read(words: Sequence[str]) -> Command:
    """Return what ``[NAME=VALUE …] yarn jar X.jar varga.tarn.yarn.Client OPTIONS`` gave.

    Long names may be cut short where that is unambiguous, short ones may be followed by their
    value (``-p8000``), and of an option that is given twice the first counts, as with the Java
    TARN's ``PosixParser``.

    Raises:
        ConfigError: It is no such command, or an option is unknown, ambiguous or lacks its value.
    """
    mine, after = _before_operator(words)
    environ, rest = _environ(mine)
    given: dict[str, object] = {}
    notes = [f"'{word}' and what follows is not part of the command" for word in after]
    words_left = iter(_flattened(_options(rest)))
    for word in words_left:
        alias = _exact(word)
        if alias is None:
            notes.append(f"{_shown(word)} is not an option; the Java TARN ignored it too")
            continue
        value: object = True
        if not alias.is_flag:
            value = next(words_left, _DONE)
            if value is _DONE or _exact(str(value)) is not None:
                raise _wrong(f"--{alias.long}", "needs a value")
        if alias.multiple:
            held = given.setdefault(alias.key, [])
            assert isinstance(held, list)
            held.append(value)
        elif alias.key in given:
            notes.append(f"--{alias.long} is given twice; the first counts, as it did")
        else:
            given[alias.key] = value
    return Command(given, environ, tuple(dict.fromkeys(notes)))


def _before_operator(words: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return the words of the first command, and the operator that ends it, if there is one."""
    for number, word in enumerate(words):
        if word and set(word) <= set(_OPERATORS):
            return list(words[:number]), [word]
    return list(words), []


def _environ(words: list[str]) -> tuple[dict[str, str], list[str]]:
    found: dict[str, str] = {}
    rest = words[1:] if words[:1] in (["env"], ["export"]) else words
    while rest and _ASSIGNMENT.match(rest[0]):
        name, _, value = rest[0].partition("=")
        found[name] = value
        rest = rest[1:]
    return found, rest


def _options(words: list[str]) -> list[str]:
    """Return what stands behind the client's class, or behind ``yarn jar X.jar``."""
    for number, word in enumerate(words):
        if _CLIENT.fullmatch(word):
            return words[number + 1 :]
    if words[:1] and words[0].rpartition("/")[2] in _STARTERS and words[1:2] == ["jar"]:
        return words[3:]
    if words and words[0].startswith("-"):
        return words
    raise _wrong(
        "command",
        "not a command of the Java TARN",
        "Expected: yarn jar tarn-orchestrator.jar varga.tarn.yarn.Client --options",
    )


def _flattened(words: Sequence[str]) -> Iterator[str]:
    """Yield options and values apart, every option as it stands in the table."""
    left = iter(words)
    for word in left:
        if word == "--":
            return  # what follows is not an option
        if word.startswith("--"):
            yield from _long(word)
        elif word.startswith("-") and word != "-":
            yield from _short(word)
        else:
            yield word


def _long(word: str) -> Iterator[str]:
    name, equals, value = word.removeprefix("--").partition("=")
    alias = _LONG.get(name) or _only(name) or (None if equals else _SHORT.get(name))
    if alias is None:
        raise _wrong(f"--{name}", "no such option of the Java TARN", _near(name))
    yield f"--{alias.long}"
    if equals:
        yield value


def _short(word: str) -> Iterator[str]:
    name = word.removeprefix("-")
    alias = _SHORT.get(name) or _LONG.get(name) or _only(name)
    if alias is not None:
        yield f"--{alias.long}"
        return
    alias = _SHORT.get(name[0])
    if alias is None or alias.is_flag:
        if re.fullmatch(r"[0-9.]+", name):
            yield word  # a negative number: some option's value
            return
        raise _wrong(f"-{name}", "no such option of the Java TARN", _near(name))
    yield f"--{alias.long}"
    yield name[1:]


def _only(name: str) -> Alias | None:
    """Return the option whose long name begins with *name*, if there is exactly one."""
    begun = [alias for long, alias in _LONG.items() if long.startswith(name)]
    return begun[0] if len(begun) == 1 else None


def _shown(word: str) -> str:
    """Return *word* where it cannot be a secret: the second half of a token may stand alone."""
    return f"'{word}'" if re.fullmatch(r"\.{3}|…|true|false", word) else "a word"


def _near(name: str) -> str:
    begun = sorted(f"--{long}" for long in _LONG if name and long.startswith(name))
    return (
        f"It may be one of: {', '.join(begun)}" if begun else "`tarn compat --options` lists them"
    )


def _exact(word: str) -> Alias | None:
    return _LONG.get(word.removeprefix("--")) if word.startswith("--") else None


def _wrong(where: str, found: str, step: str = "") -> ConfigError:
    return ConfigError(found, code="TARN-2002", where=where, next_step=step)
