"""The discovery ``zookeeper``: keeps the nodes as the last view says, through lost sessions too."""

import logging
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

import attrs

from tarn.domain import Applied, DiscoveryView
from tarn.errors import ConfigError, DiscoveryError, Superseded
from tarn.interfaces import MasterContext
from tarn.zk.acl import CREATOR_AND_READERS, AclEntry, Login
from tarn.zk.failures import NodesChangedError
from tarn.zk.nodes import FleetNode
from tarn.zk.session import TlsFiles, ZooKeeperSession
from tarn_plugins.discovery.zookeeper import ZooKeeperSettings
from tarn_plugins.discovery.zookeeper.login import login, owner
from tarn_plugins.discovery.zookeeper.plan import PublishedNodes, PublishTarget, own, plan

__all__ = ["ZooKeeper", "session_arguments"]

log = logging.getLogger(__name__)

SYNC_S: Final = 5.0
"""Longest wait for one view; the master calls a provider blocked after ten."""
LOOK_EVERY_S: Final = 30.0
"""Between two looks whether somebody removed our nodes by hand."""
_RETRY_S: Final = 0.2
_RETRY_MOST_S: Final = 5.0
_TRIES: Final = 5
_WITHDRAW_S: Final = 0.22
_NAME: Final = "zookeeper"


class ZooKeeper:
    """Publishes one cluster's instances. Nothing is started before `reach` or `sync`.

    Two threads write, never at once: the master's worker, and a keeper of our own that makes
    everything again after a lost session, when the master has no new view to post.
    """

    def __init__(
        self,
        settings: ZooKeeperSettings,
        context: MasterContext,
        *,
        look_every_s: float = LOOK_EVERY_S,
        session: Callable[..., ZooKeeperSession] = ZooKeeperSession,
    ) -> None:
        self._look_every_s = look_every_s
        self._clock, self._wake = context.clock, context.wake
        self._epoch = context.epoch
        who = owner(context.environ)
        name, payload = context.spec.name, settings.payload
        self._place = PublishTarget(settings.path, name, payload, context.api_url, who)
        self._stirred = threading.Event()
        self._session = session(**_asked(settings, context), changed=self._stirred.set)
        self._busy = threading.Lock()
        """Held by whoever reads and writes the nodes, and what is known of them."""
        self._view: DiscoveryView | None = None
        """What should be published: the last that was asked for, though it may have failed."""
        self._found: PublishedNodes | None = None
        """What is in ZooKeeper; None: it must be read."""
        self._session_id = 0
        """The session that published."""
        self._applied: Applied | None = None
        self._superseded: Superseded | None = None
        self._trouble = ""
        """Why what was published cannot be kept up."""
        self._closing = threading.Event()
        self._keeper: threading.Thread | None = None

    # -- the master's worker

    def reach(self, within_s: float) -> None:
        """Connect, and make the paths where they are missing.

        Raises:
            DiscoveryError: No server answered in time, the ACL does not let us in, or another
                owner has a cluster of this name there.
        """
        end_s = time.monotonic() + within_s
        self._session.connect(within_s)
        own(self._place, self._read((), end_s))

    def sync(self, view: DiscoveryView) -> None:
        """Publish *view*; nothing is written where nothing changed.

        Raises:
            Superseded: A newer master has published.
            DiscoveryError: It could not be done, or not wholly; try again.
        """
        if view.epoch < self._epoch:
            raise Superseded(str(view.epoch), str(self._epoch))
        if self._superseded is not None:
            raise self._superseded
        with self._busy:
            # Before it is published: what comes of an attempt without an answer is unknown, and a
            # lost session or a withdrawal must not go by the view before.
            self._view = view
            blocked = self._publish(view, time.monotonic() + SYNC_S)
        self._keep()
        # Also with a name that is taken: who left has left, and a drain waits for nothing else.
        self._applied = Applied(_NAME, view.epoch, view.revision, self._clock.at())
        self._trouble = ""
        if blocked:
            raise _foreign(self._session.ensemble, self._place.path, blocked)

    def applied(self) -> Applied | None:
        """Return the last acknowledged view.

        Raises:
            Superseded: The keeper found that a newer master has published.
        """
        if self._superseded is not None:
            raise self._superseded
        applied, trouble = self._applied, self._trouble
        return attrs.evolve(applied, error=trouble) if applied is not None and trouble else applied

    def close(self, *, withdraw: bool) -> None:
        """Leave; without *withdraw* the nodes stay until the session's timeout, for a successor."""
        if self._closing.is_set():
            return
        self._closing.set()
        self._stirred.set()
        if withdraw:
            self._withdraw()
            self._session.close(_WITHDRAW_S)
        else:
            self._session.abandon(_WITHDRAW_S)
        if self._keeper is not None:
            self._keeper.join(_WITHDRAW_S)

    # -- the keeper

    def _keep(self) -> None:
        if self._keeper is None and not self._closing.is_set():
            self._keeper = threading.Thread(target=self._run, name="zookeeper keeper", daemon=True)
            self._keeper.start()

    def _run(self) -> None:
        pause_s, retry_s, told = self._look_every_s, _RETRY_S, ""
        while True:
            stirred = self._stirred.wait(pause_s)
            self._stirred.clear()
            if self._closing.is_set():
                return
            try:
                self._mend(look=not stirred)
            except Superseded as newer:
                self._superseded = newer
                log.warning("%s", newer)
                self._wake()
                return
            except DiscoveryError as error:
                if str(error) != told:  # it may last for days
                    told = str(error)
                    log.warning("the published nodes cannot be kept up to date: %s", error)
                self._trouble = told
                pause_s, retry_s = retry_s, min(2 * retry_s, _RETRY_MOST_S)
            else:
                if self._session.connected:
                    self._trouble = ""
                pause_s, retry_s, told = self._look_every_s, _RETRY_S, ""

    def _mend(self, *, look: bool) -> None:
        """Publish the last view once more where the session is another, or a node has gone."""
        if not self._session.connected:
            # A broken connection changes nothing, and the listener tells when it is back; only a
            # client that gave up must be started again.
            if look:
                self._session.connect(SYNC_S)
            return
        with self._busy:
            view, lost = self._view, self._session.id != self._session_id
            if view is None or not (lost or (look and self._missing())):
                return
            self._found = None
            self._publish(view, time.monotonic() + SYNC_S)
        if lost:
            log.warning("the session with ZooKeeper was lost; everything is published again")

    def _missing(self) -> bool:
        """Say whether a node has gone, or the fleet's is not as we wrote it."""
        if self._found is None:
            return False
        fleet = self._session.get(self._place.fleet)
        if fleet is None or fleet.version != self._found.version:
            return True
        return not self._found.nodes.keys() <= set(self._session.children(self._place.path))

    # -- the nodes; with `_busy` held

    def _publish(self, view: DiscoveryView, end_s: float) -> tuple[str, ...]:
        """Make *view* true; return the names that could not be published."""
        for _ in range(_TRIES):
            self._session.connect(_left(end_s))
            session_id = self._session.id
            found = self._found if session_id == self._session_id else None
            self._found = None  # until all is done, nobody knows
            if found is None:
                found = self._read((m.container_id for m in view.members), end_s)
            done = plan(self._place, found, view, session_id)
            try:
                for transaction in done.transactions:
                    self._session.commit(transaction, session_id, _left(end_s))
            except NodesChangedError as error:
                log.info("%s; reading again", error)
                continue
            self._found, self._session_id = done.after, session_id
            return done.blocked
        raise DiscoveryError(
            _NAME,
            f"another program keeps changing {self._place.path} or {self._place.fleet}",
            where=f"ZooKeeper {self._session.ensemble}",
            retry_after_s=1.0,
        )

    def _read(self, needed: Iterable[str], end_s: float) -> PublishedNodes:
        """Return what is there of this cluster's, and of the names that it *needed*."""
        self._ensure(end_s)
        at = self._session.get(self._place.fleet, _left(end_s))
        fleet = _fleet(at.data, self._place.fleet) if at else None
        found = PublishedNodes(fleet, at.version if at else None)
        names = found.ours.union(needed)
        there = names & set(self._session.children(self._place.path, _left(end_s)))
        paths = {self._place.at(name): name for name in there}
        nodes = self._session.get_all(paths, _left(end_s))
        return PublishedNodes(
            fleet, found.version, {paths[path]: node for path, node in nodes.items()}
        )

    def _ensure(self, end_s: float) -> None:
        self._session.ensure(self._place.path, _left(end_s))
        self._session.ensure(self._place.fleet.rpartition("/")[0], _left(end_s))

    def _withdraw(self) -> None:
        """Remove our nodes, and say that there are none; what cannot be done in time is left."""
        view = self._view
        if view is None or not self._session.connected:
            return
        if not self._busy.acquire(timeout=_WITHDRAW_S):
            log.warning(
                "the instances will vanish with the session: a view is being written right now"
            )
            return
        empty = DiscoveryView(view.epoch, view.revision + 1, complete=True)
        try:
            self._publish(empty, time.monotonic() + _WITHDRAW_S)
        except (DiscoveryError, Superseded) as error:
            log.warning("the instances could not be withdrawn: %s", error)
        finally:
            self._busy.release()


def _asked(settings: ZooKeeperSettings, context: MasterContext) -> dict[str, Any]:
    """Return what a session is made with; say once when nothing protects the nodes.

    Raises:
        ConfigError: The digest is not where the settings say.
    """
    asked = session_arguments(settings, context.environ)
    if not asked["grants"]:
        log.warning(
            "everybody who reaches ZooKeeper %s can change the nodes: neither digest nor acl is "
            "set",
            settings.ensemble,
        )
    return asked


def session_arguments(
    settings: ZooKeeperSettings, environ: Mapping[str, str] | None
) -> dict[str, Any]:
    """Return what a session is made with; without *environ* it logs in as nobody.

    Raises:
        ConfigError: The digest is not where the settings say.
    """
    who = None if environ is None else login(settings.digest, environ)
    tls = settings.tls
    return {
        "ensemble": settings.ensemble,
        "timeout_s": settings.session_timeout_s,
        "login": who,
        "grants": _grants(settings, who),
        "tls": TlsFiles(tls.ca, tls.cert, tls.key) if tls else None,
    }


def _grants(settings: ZooKeeperSettings, who: Login | None) -> tuple[AclEntry, ...]:
    if settings.acl is not None:
        return tuple(AclEntry.parse(line) for line in settings.acl)
    return CREATOR_AND_READERS if who else ()


def _fleet(data: bytes, path: str) -> FleetNode | None:
    try:
        return FleetNode.parse(data)
    except ConfigError as error:
        log.warning("%s is written again: %s", path, error)
        return None


def _foreign(ensemble: str, path: str, blocked: tuple[str, ...]) -> DiscoveryError:
    more = f" and {len(blocked) - 1} more" if len(blocked) > 1 else ""
    return DiscoveryError(
        _NAME,
        f"another program owns the node {path}/{blocked[0]}{more}, so it is left alone",
        code="TARN-3303",
        where=f"ZooKeeper {ensemble}",
        retry_after_s=1.0,
        next_step="Choose another path for this cluster, or have the node removed.",
    )


def _left(end_s: float) -> float:
    return max(0.0, end_s - time.monotonic())
