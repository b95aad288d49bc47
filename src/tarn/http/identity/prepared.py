"""What a master can check, made of its spec and the files that were brought to it."""

import json
import os
import secrets
from collections.abc import Iterator
from pathlib import Path

from tarn.domain import master_files
from tarn.domain.request_proof import scrape_token
from tarn.domain.spec import ApiSpec
from tarn.errors import ConfigError, LaunchError
from tarn.http.blocking_pool import BlockingPool
from tarn.http.identity.local_names import LocalNames
from tarn.http.identity.people import People
from tarn.http.identity.proofs import Proofs, TicketChecker, trusted
from tarn.interfaces import UserDirectory

__all__ = ["brought_secrets", "brought_token", "prepared", "renewed_token"]


def brought_token(directory: Path) -> bytes | None:
    """Return the api token that a client left in *directory*; None: nobody is asked for one."""
    path = directory / master_files.API_TOKEN
    return path.read_bytes().strip() if path.exists() else None


def renewed_token(directory: Path) -> bytes:
    """Put a new api token into *directory*, and return it: the old one may be known to others.

    A reader of the file follows at once.

    Raises:
        LaunchError: It cannot be written: no master goes on with a token that may be known.
    """
    token = secrets.token_urlsafe(32).encode("ascii")
    try:
        _replace(directory / master_files.API_TOKEN, token)
        if (directory / master_files.SCRAPE_TOKEN).exists():  # a Prometheus reads it each time
            _replace(directory / master_files.SCRAPE_TOKEN, scrape_token(token))
    except OSError as error:
        raise LaunchError(
            "http",
            f"a new api token cannot be written ({error.strerror})",
            where=str(directory / master_files.API_TOKEN),
            next_step="Free disk space, or fix the permissions of the cluster's directory",
        ) from error
    return token


def _replace(path: Path, data: bytes) -> None:
    """Make *path* hold *data*, mode 0600: either the old or the new, whenever the power goes."""
    beside = path.with_name(f".{path.name}.new")
    beside.unlink(missing_ok=True)
    descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with open(descriptor, "wb") as file:  # noqa: PTH123 (a descriptor has no path)
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    beside.replace(path)


def brought_secrets(directory: Path) -> Iterator[str | bytes]:
    """Yield each secret that a client left in *directory*: no line of the log may show one."""
    for name in (master_files.API_TOKEN, master_files.TRITON_SECRET):
        if (directory / name).exists():
            yield (directory / name).read_bytes().strip()
    api_token = brought_token(directory)
    if api_token:
        yield scrape_token(api_token)
    for name in (master_files.SECRETS, master_files.PROXY_TOKENS):
        if (directory / name).exists():
            yield from map(str, json.loads((directory / name).read_bytes()).values())


def prepared(
    api: ApiSpec, directory: Path, api_token: bytes | None, names: UserDirectory | None = None
) -> Proofs:
    """Return what proves somebody to this master; close it when the master leaves.

    Args:
        api: What was asked for.
        directory: Where the client's files lie.
        api_token: Nobody else may have it.
        names: How the runtime calls people; None: as this machine does.

    Raises:
        ConfigError: A token is missing, or is one that somebody else has, too.
        LaunchError: SPNEGO was asked for and cannot work: nothing may start half closed.
    """
    proxies = trusted(api.trusted_proxies, _tokens(directory))
    known = [one.token for one in proxies if one.token is not None]
    if api_token is not None:
        known.append(api_token)
    if len(set(known)) < len(known):
        raise ConfigError(
            "two have one token: it would prove the identity of either",
            code="TARN-3702",
            where="api.trusted_proxies",
            next_step="Give each trusted proxy its own token, and none of them the api token",
        )
    tickets = None if api.spnego is None else _tickets(directory / master_files.SPNEGO_KEYTAB)
    pool = BlockingPool("the directory of users")
    return Proofs(proxies, tickets, pool, People(names or LocalNames(), pool))


def _tokens(directory: Path) -> dict[str, str]:
    path = directory / master_files.PROXY_TOKENS
    try:
        tokens: dict[str, str] = json.loads(path.read_bytes())
    except FileNotFoundError:
        return {}
    return tokens


def _tickets(keytab: Path) -> TicketChecker:
    try:
        from tarn.http.identity.spnego import KeytabTickets  # noqa: PLC0415 (only where asked for)
    except ImportError as error:
        raise LaunchError(
            "http",
            f"api.spnego needs the Python module gssapi: {error}",
            code="TARN-3700",
            next_step="Install tarn-orchestrator[kerberos] where the master runs",
        ) from error
    return KeytabTickets(keytab)
