"""Map secrets to the environment variables of instances, and check them. Pure."""

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import attrs

from tarn.domain.facts import Secret

__all__ = ["StoredSecret", "environ", "problems", "variables"]

_TOKEN: Final = "huggingface.token"  # noqa: S105 (a name)
# The variable of the Java TARN, and the one that current libraries read first.
_TOKENS: Final = ("HUGGING_FACE_HUB_TOKEN", "HF_TOKEN")
_PREFIX: Final = "tarn.env."
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
# Bytes of ``NAME=value`` and its final NUL that Linux accepts (MAX_ARG_STRLEN).
_LONGEST: Final = 131_072


@attrs.frozen
class StoredSecret:
    """One secret of one store of the spec."""

    where: str
    """Its store's place in the spec: ``secrets[0]``."""
    name: str
    variables: tuple[str, ...]
    """Its names in the environment of instances; empty: instances do not get it."""
    value: Secret


def variables(name: str, chosen: Mapping[str, str]) -> tuple[str, ...]:
    """Return the variables that instances get from the secret *name*.

    Args:
        name: In lower case in stores that keep it so, as Java's keystores do.
        chosen: The variables that the user chose, by name of a secret.
    """
    if name in chosen:
        return (chosen[name],)
    if name.lower() == _TOKEN:
        return _TOKENS
    if name.lower().startswith(_PREFIX):
        return (name[len(_PREFIX) :].upper(),)
    return ()


def environ(held: Sequence[StoredSecret]) -> dict[str, Secret]:
    """Return each variable's value; *held* must have no `problems`."""
    return {variable: one.value for one in held for variable in one.variables}


def problems(held: Sequence[StoredSecret], env: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Yield (place in the spec, problem) for each secret that cannot become a variable.

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
        yield from ((one.where, found) for found in _unusable(one))
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


def _unusable(one: StoredSecret) -> Iterator[str]:
    text = one.value.reveal()
    for variable in one.variables:
        if not _VARIABLE.fullmatch(variable):
            yield f"'{one.name}' would become '{variable}', which is not a valid variable name"
        elif len(f"{variable}={text}".encode(errors="replace")) >= _LONGEST:
            yield f"'{one.name}' is too long for an environment variable (128 KiB)"
    if one.variables and "\0" in text:
        yield f"'{one.name}' has a byte 0 in it, which no environment variable can have"
