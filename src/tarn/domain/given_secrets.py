"""Which environment variables instances get from secrets, and why some cannot be given. Pure."""

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import attrs

from tarn.domain.secret import Secret

__all__ = ["StoredSecret", "environ", "problems", "variables"]

_TOKEN: Final = "huggingface.token"  # noqa: S105 (a name)
_TOKENS: Final = ("HUGGING_FACE_HUB_TOKEN", "HF_TOKEN")
"""The name that the Java TARN gave it, and the one that today's libraries read first."""
_PREFIX: Final = "tarn.env."
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_LONGEST: Final = 131_072
"""Bytes of ``NAME=value`` with its end that Linux takes for one variable (MAX_ARG_STRLEN)."""


@attrs.frozen
class StoredSecret:
    """One secret of one store of the spec."""

    where: str
    """Its store's place in the spec: ``secrets[0]``."""
    name: str
    variables: tuple[str, ...]
    """What instances get it as; empty: it is for something else, and they get nothing."""
    value: Secret


def variables(name: str, chosen: Mapping[str, str]) -> tuple[str, ...]:
    """Return the variables that the secret *name* becomes.

    Args:
        name: A store may have put it into lower case, as Java's keystores do.
        chosen: The user's own choice, by name; it counts instead of the rule.
    """
    if name in chosen:
        return (chosen[name],)
    if name.lower() == _TOKEN:
        return _TOKENS
    if name.lower().startswith(_PREFIX):
        return (name[len(_PREFIX) :].upper(),)
    return ()


def environ(held: Sequence[StoredSecret]) -> dict[str, Secret]:
    """Return variable to value; *held* has no `problems`."""
    return {variable: one.value for one in held for variable in one.variables}


def problems(held: Sequence[StoredSecret], env: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Yield (place in the spec, what is wrong) for each secret that cannot be given as it is.

    Args:
        held: Every secret of every store.
        env: ``triton.env``.
    """
    by_name: dict[str, list[StoredSecret]] = defaultdict(list)
    by_variable: dict[str, list[StoredSecret]] = defaultdict(list)
    for one in held:
        by_name[one.name].append(one)
        for variable in one.variables:
            by_variable[variable].append(one)
        yield from ((one.where, found) for found in _unfit(one))
    for name, those in by_name.items():
        if len(those) > 1:
            yield those[-1].where, f"has a secret '{name}', which {those[0].where} has, too"
    for variable, those in by_variable.items():
        first, last = those[0], those[-1]
        if first.name != last.name:
            found = f"'{first.name}' and '{last.name}' would both become {variable}"
            yield last.where, found
        if variable in env:
            found = f"'{last.name}' would become {variable}, which triton.env sets, too"
            yield last.where, found


def _unfit(one: StoredSecret) -> Iterator[str]:
    text = one.value.reveal()
    for variable in one.variables:
        if not _VARIABLE.fullmatch(variable):
            yield f"'{one.name}' would become '{variable}', which is not a valid variable name"
        elif len(f"{variable}={text}".encode(errors="replace")) >= _LONGEST:
            yield f"'{one.name}' is too long for an environment variable (128 KiB)"
    if one.variables and "\0" in text:
        yield f"'{one.name}' has a byte 0 in it, which no environment variable can have"
