"""A master's secrets: read from the client's files, and replaced at a takeover if need be."""

import contextlib
import json
import logging
import os
import pwd
import secrets
from collections.abc import Iterator
from pathlib import Path

from tarn.domain.spec import ApiSpec
from tarn.errors import ConfigError, LaunchError
from tarn.http.authenticator import Proofs, TicketChecker, trusted
from tarn.http.blocking_pool import BlockingPool
from tarn.http.users import LocalNames, People
from tarn.interfaces import UserDirectory
from tarn.plain import master_files
from tarn.plain.credentials import scrape_token
from tarn.plain.master_files import LAST_PORT

__all__ = [
    "CODE",
    "brought_secrets",
    "brought_token",
    "holders",
    "keep_port",
    "last_port",
    "prepared",
    "renewed_token",
    "token_after",
]

log = logging.getLogger(__name__)


def brought_token(directory: Path) -> bytes | None:
    """Return the api token that the client left in *directory*; None if there is none."""
    path = directory / master_files.API_TOKEN
    return path.read_bytes().strip() if path.exists() else None


def renewed_token(directory: Path) -> bytes:
    """Replace the api token in *directory*, and return the new one.

    Raises:
        LaunchError: It cannot be written; no master runs with a token that others may know.
    """
    token = secrets.token_urlsafe(32).encode("ascii")
    try:
        _replace(directory / master_files.API_TOKEN, token)
        if (directory / master_files.SCRAPE_TOKEN).exists():  # Prometheus reads it at each scrape
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
    """Write *data* to *path*, mode 0600; after a power failure it holds the old or the new."""
    new = path.with_name(f".{path.name}.new")
    new.unlink(missing_ok=True)
    descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with open(descriptor, "wb") as file:  # noqa: PTH123 (a descriptor has no path)
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    new.replace(path)


def brought_secrets(directory: Path) -> Iterator[str | bytes]:
    """Yield each secret that the client left in *directory*, to be masked in the log."""
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
    """Return the proofs that this master accepts; close them when the master ends.

    Args:
        api: The spec of the API.
        directory: The directory with the client's files.
        api_token: The cluster's, which no proxy may share.
        names: The runtime's directory of users; None: this machine's.

    Raises:
        ConfigError: A token is missing, or two proxies have the same one.
        LaunchError: The spec asks for SPNEGO, which does not work here.
    """
    path = directory / master_files.PROXY_TOKENS
    tokens = json.loads(path.read_bytes()) if path.exists() else {}
    proxies = trusted(api.trusted_proxies, tokens)
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


def _tickets(keytab: Path) -> TicketChecker:
    try:
        from tarn.http.spnego import KeytabTickets  # noqa: PLC0415 (only where asked for)
    except ImportError as error:
        raise LaunchError(
            "http",
            f"api.spnego needs the Python module gssapi: {error}",
            code="TARN-3700",
            next_step="Install tarn-orchestrator[kerberos] where the master runs",
        ) from error
    return KeytabTickets(keytab)


CODE = "TARN-3773"
NET = Path("/proc/net")
# Columns of ``/proc/net/tcp``.
_ADDRESS, _USER, _INODE = 1, 7, 9
# The inode of a connection that no process holds any more, such as one in TIME_WAIT.
_NO_SOCKET = "0"


def last_port(directory: Path) -> int | None:
    """Return the port of the last master, so that its clients find the next one there."""
    try:
        port = int((directory / LAST_PORT).read_text("ascii"))
    except (OSError, ValueError):
        return None
    return port if 0 < port < 2**16 else None


def keep_port(directory: Path, port: int) -> None:
    """Store the port of this master for the next one."""
    with contextlib.suppress(OSError):  # on a full disk the next master may have another address
        (directory / LAST_PORT).write_text(str(port), "ascii")


def token_after(
    directory: Path, source: str, port: int | None, user: int
) -> tuple[bytes | None, str]:
    """Return the api token and a warning; the token is new if another user holds *port*.

    Args:
        directory: The cluster's.
        source: ``api.token``; only a generated token is replaced.
        port: The last master's port if it is taken, else None.
        user: The user id of this master; a port that its own programs hold is harmless.

    Raises:
        LaunchError: A new token cannot be written.
    """
    # Programs that send the token as it is (Prometheus, curl) may have sent it to that user. A new
    # token at every takeover would only shut out all who hold a copy: TARN's own clients send it to
    # no server that has not proven to hold it.
    token = brought_token(directory)
    users = frozenset[int]() if port is None else holders(port)
    if token is None or port is None or users == {user}:
        return token, ""
    who = ", ".join(f"user {_name(one)}" for one in sorted(users)) or "somebody"
    found = f"{who} holds port {port}, where the last master listened"
    if source == "auto":
        token = renewed_token(directory)
        found += (
            ": the cluster has a new api token, in the file of the old one. Give it to "
            "everybody who has a copy of the old one"
        )
    else:
        found += (
            ": a program that sent the api token there in clear has disclosed it. Change the "
            f"token (api.token = {source}), then run `tarn down` and `tarn up`"
        )
    log.warning("%s", found)
    return token, found


def holders(port: int, net: Path = NET) -> frozenset[int]:
    """Return the user ids of the sockets at local *port*; empty if they cannot be read.

    Connections count too, since they also keep the port from others.
    """
    users = set()
    for table in ("tcp", "tcp6"):
        try:
            rows = (net / table).read_text("ascii").splitlines()[1:]
        except OSError:
            continue
        for columns in map(str.split, rows):
            here = int(columns[_ADDRESS].rpartition(":")[2], 16) == port
            if here and columns[_INODE] != _NO_SOCKET:
                users.add(int(columns[_USER]))
    return frozenset(users)


def _name(user: int) -> str:
    try:
        return pwd.getpwuid(user).pw_name
    except KeyError:
        return str(user)
