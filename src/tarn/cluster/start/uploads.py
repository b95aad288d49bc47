"""Read the client's files that a master needs: keys, keytabs, secrets, test requests."""

import importlib.util
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import cast

from tarn.cluster.environment import ClusterEnvironment
from tarn.cluster.given_secrets import StoredSecret
from tarn.cluster.start.server_certificate import ends_soon, server_certificate
from tarn.cluster.start.stores import carried, held
from tarn.domain import ClusterSpec, Secret
from tarn.domain.spec import NO_TEST
from tarn.errors import ConfigError, ConfigErrors
from tarn.hookspecs import RuntimeFactory
from tarn.interfaces import Finding, Progress
from tarn.plain import did_you_mean
from tarn.plain.credentials import keytab_keys
from tarn.plain.master_files import PROXY_TOKENS, SMOKE, SPNEGO_KEYTAB, TEST_REQUESTS
from tarn.tls.contexts import LOOPBACK
from tarn.triton.test_files import LONGEST_FILE, parse

__all__ = ["carried_tests", "look_at_tests", "trust_store_files", "uploads"]

Files = Mapping[str, bytes]
# SPNEGO clients request tickets for the principal ``HTTP/<host>`` (RFC 4559).
SERVICE = "HTTP/"
# Characters. A proxy names the user of each request, so a guessed token gives access as anybody.
SHORTEST_TOKEN = 16
CODE = "TARN-2013"
_KEY = "instance.test_request"


def uploads(
    spec: ClusterSpec,
    environment: ClusterEnvironment,
    hear: Callable[[Progress], None] | None = None,
) -> Files:
    """Return the content of every file that *spec* needs, by its name at the master.

    The names are those of `tarn.plain.master_files`.

    Raises:
        ConfigErrors: Files that cannot be read, or do not fit together; every error at once.
    """
    found: tuple[StoredSecret, ...] = ()
    errors = list[ConfigError]()
    try:
        found = held(spec, environment, hear)
    except ConfigErrors as unread:
        errors += unread.errors
    files = dict(carried(found))
    for part in _parts(spec, environment, {one.name: one.value for one in found}):
        try:
            files.update(part())
        except ConfigErrors as wrong:
            errors += wrong.errors
    if errors:
        raise ConfigErrors(errors)
    if hear is not None and (soon := ends_soon(files, environment.clock.at())):
        hear(Progress("preflight", f"api.tls: {soon}", note=True))
    return files


def _parts(
    spec: ClusterSpec, environment: ClusterEnvironment, secrets: Mapping[str, Secret]
) -> Iterator[Callable[[], Files]]:
    """Yield a function for each part of *spec* that reads its files.

    *secrets* are those of the spec, some of which may be passwords of keystores.
    """
    chosen = environment.plugins().choose("runtime", spec.runtime.use, "runtime.use")
    runtime = cast("RuntimeFactory", chosen)
    # For a master on another machine, its modules and its host are not known here.
    elsewhere = runtime.capabilities.remote
    gssapi = elsewhere or importlib.util.find_spec("gssapi") is not None
    yield lambda: trust_store_files(spec, environment.environ, gssapi=gssapi)
    if (tls := spec.api.tls) is not None:
        hosts: Sequence[str] = ()
        if not elsewhere:
            host = runtime.host(environment.environ)
            hosts = LOOPBACK if host in LOOPBACK else (host,)
        yield lambda: server_certificate(tls, secrets, hosts, environment.clock.at())
    yield lambda: carried_tests(spec)


def trust_store_files(
    spec: ClusterSpec, environ: Mapping[str, str], *, gssapi: bool = True
) -> Mapping[str, bytes]:
    """Return the files by which the master recognizes Kerberos users and proxies.

    Args:
        spec: Names the keytab and the proxies' tokens.
        environ: The client's environment.
        gssapi: Whether the master's Python has that module, or it is unknown.

    Raises:
        ConfigErrors: Files that cannot be read or used; every error at once, without a secret.
    """
    files, errors = dict[str, bytes](), list[ConfigError]()
    if spec.api.spnego is not None:
        try:
            files[SPNEGO_KEYTAB] = _keytab(Path(spec.api.spnego.keytab).expanduser())
        except ConfigError as error:
            errors.append(error)
        if not gssapi:
            errors.append(
                ConfigError(
                    "needs the Python module gssapi, which is not installed here",
                    code="TARN-3700",
                    where="api.spnego",
                    next_step="pip install 'tarn-orchestrator[kerberos]'",
                )
            )
    tokens, wrong = _proxy_tokens(spec, environ)
    errors += wrong
    if errors:
        raise ConfigErrors(errors)
    return {**files, PROXY_TOKENS: json.dumps(tokens).encode()} if tokens else files


def _proxy_tokens(
    spec: ClusterSpec, environ: Mapping[str, str]
) -> tuple[dict[str, str], list[ConfigError]]:
    """Return the token of each trusted proxy by its name, and the errors."""
    tokens, errors = dict[str, str](), list[ConfigError]()
    for number, proxy in enumerate(spec.api.trusted_proxies):
        if proxy.authenticated_by != "token":
            continue
        try:
            where = f"api.trusted_proxies[{number}].token"
            tokens[proxy.name] = _token(where, proxy.token or "", environ)
        except ConfigError as error:
            errors.append(error)
    names = sorted(name for name, one in tokens.items() if [*tokens.values()].count(one) > 1)
    if names:
        errors.append(
            ConfigError(
                f"{' and '.join(names)} have the same token: it would prove the identity of either",
                code="TARN-3702",
                where="api.trusted_proxies",
                next_step="Give each its own",
            )
        )
    return tokens, errors


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


def look_at_tests(spec: ClusterSpec) -> Iterator[Finding]:
    """Yield findings on the files of ``instance.test_request`` and ``update.smoke``."""
    for key, _, path in _named(spec):
        yield from _look(spec, key, path)


def _look(spec: ClusterSpec, key: str, path: Path) -> Iterator[Finding]:
    text, found = _read(key, path)
    yield from found
    if found:
        return
    requests, flaws = parse(text)
    for flaw in flaws:
        where = f"{key} = '{path}'" + (f", {flaw.where}" if flaw.where else "")
        yield Finding(CODE, where, flaw.found, f"Expected {flaw.right}")
    serve = spec.models.serve
    for request in requests:
        if serve and request.model not in serve:
            lacks = f"'{request.model}' is not in models.serve"
            step = did_you_mean(request.model, serve) or f"models.serve has {', '.join(serve)}"
            yield Finding(CODE, f"{key} = '{path}', model", lacks, step)


def carried_tests(spec: ClusterSpec) -> Mapping[str, bytes]:
    """Return the files of ``instance.test_request`` and ``update.smoke``, by name at the master.

    Raises:
        ConfigErrors: The file cannot be read, or has errors.
    """
    wrong = [
        ConfigError(one.found, code=one.code, where=one.where, next_step=one.next_step)
        for one in look_at_tests(spec)
    ]
    if wrong:
        raise ConfigErrors(wrong)
    return {name: path.read_bytes() for _, name, path in _named(spec)}


def _named(spec: ClusterSpec) -> Iterator[tuple[str, str, Path]]:
    """Yield key, name at the master, and path of each file with requests."""
    if spec.instance.test_request not in (None, NO_TEST):
        yield _KEY, TEST_REQUESTS, Path(str(spec.instance.test_request))
    if spec.update.smoke is not None:
        yield "update.smoke", SMOKE, Path(spec.update.smoke)


def _read(key: str, path: Path) -> tuple[bytes, tuple[Finding, ...]]:
    """Return the file, cut one byte after the allowed length, or why it cannot be read."""
    where, step = f"{key} = '{path}'", "Name a file of this machine that you may read"
    try:
        if path.exists() and not path.is_file():
            return b"", (Finding(CODE, where, "is not a file", step),)
        with path.open("rb") as file:
            return file.read(LONGEST_FILE + 1), ()
    except OSError as error:
        found = f"cannot be read ({error.strerror})"
        if key == _KEY:
            step = f"{step}; '{NO_TEST}' switches test requests off"
        return b"", (Finding(CODE, where, found, step),)
