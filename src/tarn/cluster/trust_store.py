"""By what a master will know others: its keytab for SPNEGO, and the tokens of trusted proxies."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path

from tarn.domain import ClusterSpec
from tarn.domain.keytab import keytab_keys
from tarn.domain.master_files import PROXY_TOKENS, SPNEGO_KEYTAB
from tarn.errors import ConfigError, ConfigErrors

__all__ = ["trust_store_files"]

SERVICE = "HTTP/"
"""Browsers and other clients take tickets for ``HTTP/<host>``."""
SHORTEST_TOKEN = 16
"""Characters; whoever guesses one speaks for every user."""


def trust_store_files(
    spec: ClusterSpec, environ: Mapping[str, str], *, gssapi: bool = True
) -> Mapping[str, bytes]:
    """Return name (of `tarn.domain.master_files`) to content; read on the client's machine.

    Args:
        spec: What was asked for.
        environ: The client's environment.
        gssapi: The master's Python has that module, or nobody can know.

    Raises:
        ConfigErrors: What cannot be read or cannot work, everything at once; no secret in it.
    """
    files, errors = dict[str, bytes](), list[ConfigError]()
    if spec.api.spnego is not None:
        try:
            files[SPNEGO_KEYTAB] = _keytab(Path(spec.api.spnego.keytab).expanduser())
        except ConfigError as error:
            errors.append(error)
        if not gssapi:
            errors.append(_no_module())
    tokens = dict[str, str]()
    for where, name, source in _sources(spec):
        try:
            tokens[name] = _token(where, source, environ)
        except ConfigError as error:
            errors.append(error)
    errors += _doubles(tokens)
    if errors:
        raise ConfigErrors(errors)
    return {**files, PROXY_TOKENS: json.dumps(tokens).encode()} if tokens else files


def _no_module() -> ConfigError:
    return ConfigError(
        "needs the Python module gssapi, which is not installed here",
        code="TARN-3700",
        where="api.spnego",
        next_step="pip install 'tarn-orchestrator[kerberos]'",
    )


def _keytab(path: Path) -> bytes:
    where = "api.spnego.keytab"
    try:
        data = path.read_bytes()
        keys = keytab_keys(data)
    except OSError as error:
        raise ConfigError(
            f"the keytab {path} cannot be read ({error.strerror})",
            code="TARN-3701",
            where=where,
            next_step="Make it readable by you, or name another one",
        ) from error
    except ValueError as error:
        raise ConfigError(
            f"{path} is not a keytab: {error}",
            code="TARN-3701",
            where=where,
            next_step="Make one with ktutil, kadmin or ipa-getkeytab",
        ) from error
    if not any(key.principal.startswith(SERVICE) for key in keys):
        found = ", ".join(sorted({key.principal for key in keys})) or "nobody"
        raise ConfigError(
            f"the keytab {path} has no key of HTTP/<host>, only of: {found}",
            code="TARN-3701",
            where=where,
            right="Clients take tickets for HTTP/ and the name of the master's host",
            next_step="Add the keys of HTTP/<host> for every host where a master may run",
        )
    return data


def _sources(spec: ClusterSpec) -> Iterator[tuple[str, str, str]]:
    for number, one in enumerate(spec.api.trusted_proxies):
        if one.authenticated_by == "token":
            yield f"api.trusted_proxies[{number}].token", one.name, one.token or ""


def _token(where: str, source: str, environ: Mapping[str, str]) -> str:
    kind, _, name = source.partition(":")
    try:
        text = Path(name).expanduser().read_text() if kind == "file" else environ.get(name, "")
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or "it is not text"
        raise ConfigError(
            f"the file {name} cannot be read ({why})",
            code="TARN-3702",
            where=where,
            next_step="Make it readable by you, or name another one",
        ) from error
    token = text.strip()
    place = f"the file {name}" if kind == "file" else f"the environment variable {name}"
    if not token:
        raise ConfigError(f"{place} is missing or empty", code="TARN-3702", where=where)
    if len(token) < SHORTEST_TOKEN or not token.isascii() or not token.isprintable():
        raise ConfigError(
            f"{place} does not hold a valid token: it has {len(token)} characters",
            code="TARN-3702",
            where=where,
            right=f"Expected {SHORTEST_TOKEN} or more printable ASCII characters on one line",
            next_step="Make one: python3 -c 'import secrets; print(secrets.token_urlsafe(32))'",
        )
    return token


def _doubles(tokens: Mapping[str, str]) -> Iterator[ConfigError]:
    names = sorted(name for name, one in tokens.items() if [*tokens.values()].count(one) > 1)
    if names:
        yield ConfigError(
            f"{' and '.join(names)} have the same token: it would prove the identity of either",
            code="TARN-3702",
            where="api.trusted_proxies",
            next_step="Give each its own",
        )
