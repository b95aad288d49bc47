"""The checks of `tarn doctor` for an ensemble: each server, and the permissions at the path."""

import concurrent.futures
import contextlib
import secrets
from collections.abc import Callable, Iterator, Mapping
from typing import Final

from tarn.domain import ClusterSpec
from tarn.errors import ConfigError, DiscoveryError
from tarn.interfaces import Check, CheckResult, ClientContext, Finding
from tarn.plain import structure
from tarn.zk.nodes import CheckVersion, Create, FleetNode, Operation
from tarn.zk.session import NodesChangedError, ZooKeeperSession
from tarn_plugins.discovery.zookeeper import ZooKeeperSettings
from tarn_plugins.discovery.zookeeper.discovery import owner, session_arguments
from tarn_plugins.discovery.zookeeper.plan import PublishedNodes, PublishTarget, own

__all__ = ["checks"]

CONNECT_S: Final = 4.0
"""A healthy server answers in milliseconds, one that elects a leader after a second."""
_NO_VERSION: Final = 2**31 - 1  # no node has this version, so ZooKeeper refuses the transaction
_DENIED: Final = "TARN-3302"

MakeSession = Callable[..., ZooKeeperSession]


def checks(
    spec: ClusterSpec, context: ClientContext, session: MakeSession = ZooKeeperSession
) -> Iterator[Check]:
    """Yield the checks of each ZooKeeper that *spec* names."""
    found = [
        (number, settings)
        for number, one in enumerate(spec.discovery)
        if one.use == "zookeeper" and (settings := structure(ZooKeeperSettings, one.options)[0])
    ]
    for number, settings in found:
        of = f" of discovery[{number}]" if len(found) > 1 else ""
        look = _EnsembleSurvey(spec, context, settings, session)
        yield Check(
            f"ZooKeeper servers{of}",
            "Load balancers find instances there; without a majority of servers nothing changes.",
            look.servers,
        )
        yield Check(
            f"ZooKeeper path{of}",
            "The master makes a node for each instance there, and one for the cluster.",
            look.path,
        )


class _EnsembleSurvey:
    """The two checks of one ensemble."""

    def __init__(
        self,
        spec: ClusterSpec,
        context: ClientContext,
        settings: ZooKeeperSettings,
        session: MakeSession,
    ) -> None:
        self._settings, self._session, self._context = settings, session, context
        self._servers, slash, root = settings.ensemble.partition("/")
        self._root = f"{slash}{root}".rstrip("/")
        who = owner(context.environ)
        self._place = PublishTarget(settings.path, spec.name, settings.payload, owner=who)

    def servers(self) -> CheckResult:
        """Open a session at each server; a server without a leader refuses."""
        names = [name.strip() for name in self._servers.split(",")]
        with concurrent.futures.ThreadPoolExecutor(len(names)) as pool:
            silent = {n: e for n, e in zip(names, pool.map(self._reach, names), strict=True) if e}
        if not silent:
            return CheckResult(f"{', '.join(names)}: each accepts sessions")
        if len(silent) == len(names):
            return CheckResult("", (_finding(next(iter(silent.values()))),))
        return CheckResult("", tuple(_one_silent(one, e, len(names)) for one, e in silent.items()))

    def path(self) -> CheckResult:
        """Try the master's operations in a transaction that ZooKeeper must refuse."""
        try:
            arguments = session_arguments(self._settings, self._context.environ)
        except ConfigError as error:
            # the digest is on the master's machine, which may be another one
            return CheckResult(
                f"not tried from here, since {error.found}; it must work on the master's machine",
                known=False,
            )
        with self._open(self._servers, arguments) as session:
            missing = self._missing(session)
            found = (*self._foreign(session), *self._tried(session, missing))
        whole = self._root + self._settings.path
        made = "; it is made at the first start" if missing else ""
        return CheckResult("" if found else f"{whole}: this user may publish{made}", found)

    def _reach(self, server: str) -> DiscoveryError | None:
        try:
            # without a login, which the other check tries
            with self._open(server, session_arguments(self._settings, None)):
                return None
        except DiscoveryError as error:
            return error

    @contextlib.contextmanager
    def _open(self, servers: str, arguments: Mapping[str, object]) -> Iterator[ZooKeeperSession]:
        session = self._session(**{**arguments, "ensemble": servers})
        try:
            session.connect(CONNECT_S)
            yield session
        finally:
            session.close()

    def _missing(self, session: ZooKeeperSession) -> tuple[str, ...]:
        """Return the nodes that do not exist yet, parents before children."""
        path = self._root + self._settings.path
        missing: dict[str, None] = {}
        for at in (path, f"{path.rpartition('/')[0]}/fleets"):
            lacking = []
            while at and not _exists(session, at):
                lacking.append(at)
                at = at.rpartition("/")[0]  # noqa: PLW2901 (upwards)
            missing |= dict.fromkeys(reversed(lacking))
        return tuple(missing)

    def _tried(self, session: ZooKeeperSession, missing: tuple[str, ...]) -> Iterator[Finding]:
        name = f"tarn-doctor-{secrets.token_hex(4)}"
        node = f"{self._root}{self._place.at(name)}"
        mark = f"{self._root}{self._place.fleet.rpartition('/')[0]}/{name}"
        operations: list[Operation] = [Create(at) for at in missing]
        operations += [Create(mark), Create(node, ephemeral=True), CheckVersion(node, _NO_VERSION)]
        try:
            session.commit(operations, session.id)
        except NodesChangedError:
            return  # every operation was allowed until the last one, which undid them
        except DiscoveryError as error:
            yield _finding(error)

    def _foreign(self, session: ZooKeeperSession) -> Iterator[Finding]:
        """Yield an error if another user has a cluster of this name there."""
        at = None
        try:
            at = session.read(self._root + self._place.fleet)
        except DiscoveryError as error:
            if error.code != _DENIED:
                raise
        try:
            fleet = FleetNode.parse(at) if at else None
        except ConfigError:
            return  # the master overwrites a node that it cannot read
        try:
            own(self._place, PublishedNodes(fleet))
        except DiscoveryError as error:
            yield _finding(error)


def _exists(session: ZooKeeperSession, path: str) -> bool:
    try:
        return session.get(path) is not None
    except DiscoveryError as error:
        if error.code != _DENIED:
            raise
        return True  # a node that denies reading exists


def _one_silent(server: str, error: DiscoveryError, count: int) -> Finding:
    return Finding(
        "TARN-3606",
        f"ZooKeeper {server}",
        f"one of {count} servers: {error.found}",
        error.next_step,
        fatal=False,
    )


def _finding(error: DiscoveryError) -> Finding:
    found = f"{error.found}. {error.right}" if error.right else error.found
    return Finding(error.code, error.where, found, error.next_step)
