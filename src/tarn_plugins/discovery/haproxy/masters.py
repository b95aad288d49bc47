"""Where an agent finds its master, where no cluster is kept next to it: a URL, or ZooKeeper.

The api token is read at each connection, so that one that was changed is taken up.
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Protocol

import attrs

from tarn.errors import ConfigError, NotFoundError, UnreachableError
from tarn.follow import KerberosTickets, MasterApi, Trust
from tarn.zk import FleetNode, fleet_path

__all__ = ["AtUrl", "InZooKeeper", "Registry", "Token", "kept_token", "only_cluster"]

Token = Callable[[], str | None]
"""Reads an api token, or says that there is none."""


def kept_token(file: Path | None, environ: Mapping[str, str], *, variable: bool) -> Token | None:
    """Return who reads the api token; None where none was given.

    From *file*; else from ``api_token`` in the directory of credentials that systemd made; else,
    with *variable*, from ``TARN_TOKEN``.
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
    """Reads a file that holds nothing but an api token."""

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
    """A master that stays where it is, or behind a name that leads to it."""

    url: str
    cluster: str = ""
    """Whose master must answer; empty: whoever does."""
    api_token: Token | None = attrs.field(default=None, repr=False)
    tickets: KerberosTickets | None = None
    """Whose, where the master takes Kerberos and no api token is given; None: the user's own."""
    trust: Trust | None = None
    """By what a master at an https URL is known, and a certificate of one's own."""

    @property
    def name(self) -> str:
        """What errors call the cluster."""
        return self.cluster or self.url

    def open(self) -> MasterApi:
        """Return a client of that URL.

        Raises:
            UnreachableError: Another cluster's master answers there.
            TarnError: None answers, or it does not let this user; or the token cannot be read.
        """
        return _proven(self.url, self.cluster, self.api_token, self.tickets, self.trust)


class Registry(Protocol):
    """What is asked of a `tarn.zk.session.ZooKeeperSession`."""

    ensemble: str

    def read(self, path: str) -> bytes | None:
        """Return what a node holds; None where there is none."""

    def children(self, path: str) -> tuple[str, ...]:
        """Return the names below a node, sorted; none where there is no such node."""


@attrs.frozen
class InZooKeeper:
    """A master that says in ZooKeeper where it listens. The session is the caller's to end."""

    session: Registry
    path: str
    """Of the instances."""
    name: str
    """The cluster's."""
    api_token: Token | None = attrs.field(default=None, repr=False)
    tickets: KerberosTickets | None = None
    """As `AtUrl.tickets`."""
    trust: Trust | None = None
    """As `AtUrl.trust`."""

    def open(self) -> MasterApi:
        """Return a client of the master that wrote last.

        Raises:
            NotFoundError: None ever did.
            UnreachableError: It does not answer there, or does not say where.
            TarnError: ZooKeeper does not answer, or the master does not let this user.
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
    """Return the one cluster that publishes at *path*.

    Raises:
        NotFoundError: There is none.
        ConfigError: There are several.
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
    """Return a client of *url*, once whoever answers there has said that it is the one meant."""
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
