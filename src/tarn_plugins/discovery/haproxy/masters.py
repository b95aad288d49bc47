"""Find the master of an agent that has no kept cluster: at a URL, or through ZooKeeper."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Protocol

import attrs
import click

from tarn.errors import ConfigError, NotFoundError, UnreachableError
from tarn.follow import KerberosTickets, MasterApi, Trust
from tarn.zk.nodes import FleetNode, fleet_path

__all__ = ["AtUrl", "InZooKeeper", "Token", "kept_token", "only_cluster", "tickets", "trust"]

Token = Callable[[], str | None]
"""Returns the api token; None: there is none. Called for each connection, as it may change."""


def kept_token(file: Path | None, environ: Mapping[str, str], *, variable: bool) -> Token | None:
    """Return the reader of the api token; None if no token is given.

    The token is in *file*; else in ``api_token`` in systemd's directory of credentials; else, with
    *variable*, in ``TARN_TOKEN``.
    """
    credentials = environ.get("CREDENTIALS_DIRECTORY", "")
    if file is None and credentials and (Path(credentials) / "api_token").exists():
        file = Path(credentials) / "api_token"
    if file is not None:
        return _FromFile(file)
    text = environ.get("TARN_TOKEN", "").strip() if variable else ""
    return (lambda: text) if text else None


@attrs.frozen
class _FromFile:
    """Reads an api token from its file."""

    path: Path

    def __call__(self) -> str:
        try:
            text = self.path.read_text("ascii").strip()
        except (OSError, ValueError) as error:
            why = error.strerror if isinstance(error, OSError) else "not ASCII text"
            raise ConfigError(
                f"the api token cannot be read ({why})",
                where=str(self.path),
                right="It must be readable by this user, mode 0600.",
            ) from error
        if not text:
            raise ConfigError("the file of the api token is empty", where=str(self.path))
        return text


@attrs.frozen
class AtUrl:
    """A master at a fixed URL."""

    url: str
    cluster: str = ""
    """The cluster whose master must answer; empty: any."""
    api_token: Token | None = attrs.field(default=None, repr=False)
    tickets: KerberosTickets | None = None
    """Tickets for a master with Kerberos, without an api token; None: the user's own."""
    trust: Trust | None = None
    """Authorities of a master at an https URL, and the client's own certificate."""

    @property
    def name(self) -> str:
        """The cluster's name, for errors."""
        return self.cluster or self.url

    def open(self) -> MasterApi:
        """Return a client of the master at the URL.

        Raises:
            UnreachableError: Another cluster's master answers there.
            TarnError: No master answers, or it denies access; or the token cannot be read.
        """
        return _proven(self.url, self.cluster, self.api_token, self.tickets, self.trust)


class Registry(Protocol):
    """The part of `tarn.zk.session.ZooKeeperSession` that is needed here."""

    ensemble: str

    def read(self, path: str) -> bytes | None:
        """Return the data of a node; None if it does not exist."""

    def children(self, path: str) -> tuple[str, ...]:
        """Return the names below a node, sorted; none if it does not exist."""


@attrs.frozen
class InZooKeeper:
    """A master that publishes its URL in ZooKeeper. The caller ends the session."""

    session: Registry
    path: str
    """Path of the instances' nodes."""
    name: str
    """The cluster's name."""
    api_token: Token | None = attrs.field(default=None, repr=False)
    tickets: KerberosTickets | None = None
    """As `AtUrl.tickets`."""
    trust: Trust | None = None
    """As `AtUrl.trust`."""

    def open(self) -> MasterApi:
        """Return a client of the master that published last.

        Raises:
            NotFoundError: No master has published.
            UnreachableError: The master published no URL, or does not answer there.
            TarnError: ZooKeeper does not answer, or the master denies access.
        """
        where = fleet_path(self.path, self.name)
        data = self.session.read(where)
        if data is None:
            raise NotFoundError(
                f"no master of cluster '{self.name}' has published anything",
                where=f"ZooKeeper {self.session.ensemble}, {where}",
                next_step="Check --zookeeper-path, which is `path` of the cluster's discovery.",
            )
        url = FleetNode.parse(data).api_url
        if not url:
            raise UnreachableError("the master does not say where it listens", where=where)
        return _proven(url, self.name, self.api_token, self.tickets, self.trust)


def only_cluster(session: Registry, path: str) -> str:
    """Return the only cluster that publishes at *path*.

    Raises:
        NotFoundError: No cluster publishes there.
        ConfigError: Several clusters publish there.
    """
    parent = fleet_path(path, "").rstrip("/")
    names = session.children(parent)
    if len(names) == 1:
        return names[0]
    where = f"ZooKeeper {session.ensemble}, {parent}"
    if not names:
        raise NotFoundError("no cluster has published anything", where=where)
    raise ConfigError(
        f"several clusters publish: {', '.join(names)}",
        where=where,
        right="Name one of them.",
        next_step=f"For example: -c {names[0]}",
    )


def _proven(
    url: str,
    cluster: str,
    api_token: Token | None,
    tickets: KerberosTickets | None,
    trust: Trust | None,
) -> MasterApi:
    """Return a client of *url* after the master there has named its cluster."""
    api = MasterApi(url, None if api_token is None else api_token(), tickets=tickets, trust=trust)
    try:
        found = api.cluster()
    except BaseException:
        api.close()
        raise
    if cluster and found != cluster:
        api.close()
        raise UnreachableError(f"answers for cluster '{found}'", where=url)
    return api


def tickets(
    ctx: click.Context, keytab: Path | None, principal: str | None
) -> KerberosTickets | None:
    """Return the tickets of ``--keytab`` and ``--principal``; None without a keytab."""
    if keytab is None:
        if principal:
            raise click.UsageError(
                "--principal chooses a key of --keytab, which is not given.", ctx
            )
        return None
    if ctx.params["token_file"]:
        raise click.UsageError("Use either --keytab or --token-file.", ctx)
    return KerberosTickets(keytab, principal or "")


def trust(ctx: click.Context, ca: Path | None, cert: Path | None, key: Path | None) -> Trust | None:
    """Return the files of ``--ca``, ``--cert`` and ``--key``; None without any."""
    if key is not None and cert is None:
        raise click.UsageError("--key belongs to --cert, which is not given.", ctx)
    return Trust(ca, cert, key) if ca or cert else None
