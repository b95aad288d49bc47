"""The discovery ``zookeeper``: keeps the nodes as the last view says, also after lost sessions."""

import logging
import os
import pwd
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Final

import attrs

from tarn.domain import Applied, DiscoveryView
from tarn.errors import ConfigError, DiscoveryError, Superseded
from tarn.interfaces import MasterContext
from tarn.tls.contexts import Trust
from tarn.zk.nodes import CREATOR_AND_READERS, AclEntry, FleetNode, Login
from tarn.zk.session import NodesChangedError, ZooKeeperSession
from tarn_plugins.discovery.zookeeper import ZooKeeperSettings
from tarn_plugins.discovery.zookeeper.plan import PublishedNodes, PublishTarget, own, plan

__all__ = ["ZooKeeper", "login", "owner", "session_arguments"]

log = logging.getLogger(__name__)

SYNC_S: Final = 5.0
"""Longest wait for one view; the master reports a provider as blocked after ten seconds."""
LOOK_EVERY_S: Final = 30.0
"""Seconds between two checks whether somebody removed our nodes by hand."""
_RETRY_S: Final = 0.2  # the first pause after an error; each further one doubles
_RETRY_MOST_S: Final = 5.0
_TRIES: Final = 5  # after that, another program keeps changing the nodes
_WITHDRAW_S: Final = 0.22  # for each of up to four waits: the master gives `close` a second
_NAME: Final = "zookeeper"


class ZooKeeper:
    """Publishes one cluster's instances. Nothing is started before `reach` or `sync`.

    Two threads write, never at the same time: the master's worker, and the keeper. The keeper
    publishes the last view again after a lost session, when the master has no new view.
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
        arguments = session_arguments(settings, context.environ)
        if not arguments["grants"]:
            log.warning(
                "everybody who reaches ZooKeeper %s can change the nodes: neither digest nor acl "
                "is set",
                settings.ensemble,
            )
        self._session = session(**arguments, changed=self._stirred.set)
        self._busy = threading.Lock()
        """Guards the nodes, and `_found`, which describes them."""
        self._view: DiscoveryView | None = None
        """The last requested view, although publishing it may have failed."""
        self._found: PublishedNodes | None = None
        """The nodes in ZooKeeper; None: they must be read."""
        self._session_id = 0
        """The session that published."""
        self._applied: Applied | None = None
        self._superseded: Superseded | None = None
        self._trouble = ""
        """The error that keeps the keeper from its work; '' if there is none."""
        self._closing = threading.Event()
        self._keeper: threading.Thread | None = None

    # -- the master's worker

    def reach(self, within_s: float) -> None:
        """Connect, and create the paths that are missing.

        Raises:
            DiscoveryError: No server answered in time, the ACL denies access, or another owner has
                a cluster of this name there.
        """
        end_s = time.monotonic() + within_s
        self._session.connect(within_s)
        own(self._place, self._read((), end_s))

    def sync(self, view: DiscoveryView) -> None:
        """Publish *view*; write only what changed.

        Raises:
            Superseded: A newer master has published.
            DiscoveryError: The view was not published, or only in part; try again.
        """
        if view.epoch < self._epoch:
            raise Superseded(str(view.epoch), str(self._epoch))
        if self._superseded is not None:
            raise self._superseded
        with self._busy:
            # Before it is published: if the attempt gets no answer, its effect is unknown, and
            # neither the keeper nor `_withdraw` may go on from the view before.
            self._view = view
            blocked = self._publish(view, time.monotonic() + SYNC_S)
        if self._keeper is None and not self._closing.is_set():
            self._keeper = threading.Thread(target=self._run, name="zookeeper keeper", daemon=True)
            self._keeper.start()
        # Also if a name is taken: the nodes that should leave have left, as a drain waits for.
        self._applied = Applied(_NAME, view.epoch, view.revision, self._clock.at())
        self._trouble = ""
        if blocked:
            more = f" and {len(blocked) - 1} more" if len(blocked) > 1 else ""
            node = self._place.at(blocked[0])
            raise DiscoveryError(
                _NAME,
                f"another program owns the node {node}{more}, so it is left alone",
                code="TARN-3303",
                where=f"ZooKeeper {self._session.ensemble}",
                retry_after_s=1.0,
                next_step="Choose another path for this cluster, or have the node removed.",
            )

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
        """End; without *withdraw* the nodes stay for a successor until the session's timeout."""
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

    def _run(self) -> None:
        pause_s, retry_s, told = self._look_every_s, _RETRY_S, ""
        while True:
            stirred = self._stirred.wait(pause_s)
            self._stirred.clear()
            if self._closing.is_set():
                return
            try:
                self._restore(look=not stirred)
            except Superseded as newer:
                self._superseded = newer
                log.warning("%s", newer)
                self._wake()
                return
            except DiscoveryError as error:
                if str(error) != told:  # once: an outage may last for days
                    told = str(error)
                    log.warning("the published nodes cannot be kept up to date: %s", error)
                self._trouble = told
                pause_s, retry_s = retry_s, min(2 * retry_s, _RETRY_MOST_S)
            else:
                if self._session.connected:
                    self._trouble = ""
                pause_s, retry_s, told = self._look_every_s, _RETRY_S, ""

    def _restore(self, *, look: bool) -> None:
        """Publish the last view again if the session is a new one or a node is missing."""
        if not self._session.connected:
            # A broken connection changes nothing, and `_stirred` is set when it is back. Only a
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
        """Return whether a node is missing, or the cluster's node has changed."""
        if self._found is None:
            return False
        fleet = self._session.get(self._place.fleet)
        if fleet is None or fleet.version != self._found.version:
            return True
        return not self._found.nodes.keys() <= set(self._session.children(self._place.path))

    # -- the nodes; with `_busy` held

    def _publish(self, view: DiscoveryView, end_s: float) -> tuple[str, ...]:
        """Publish *view*; return the names that another program's nodes block."""
        for _ in range(_TRIES):
            self._session.connect(_left(end_s))
            session_id = self._session.id
            found = self._found if session_id == self._session_id else None
            self._found = None  # unknown until every transaction is done
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
        """Return the nodes of this cluster, and those with a *needed* name."""
        self._session.ensure(self._place.path, _left(end_s))
        self._session.ensure(self._place.fleet.rpartition("/")[0], _left(end_s))
        at = self._session.get(self._place.fleet, _left(end_s))
        fleet = None
        if at:
            try:
                fleet = FleetNode.parse(at.data)
            except ConfigError as error:
                log.warning("%s is written again: %s", self._place.fleet, error)
        found = PublishedNodes(fleet, at.version if at else None)
        names = found.ours.union(needed)
        there = names & set(self._session.children(self._place.path, _left(end_s)))
        paths = {self._place.at(name): name for name in there}
        nodes = self._session.get_all(paths, _left(end_s))
        return PublishedNodes(
            fleet, found.version, {paths[path]: node for path, node in nodes.items()}
        )

    def _withdraw(self) -> None:
        """Remove our nodes, as far as that is possible in time."""
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


def session_arguments(
    settings: ZooKeeperSettings, environ: Mapping[str, str] | None
) -> dict[str, Any]:
    """Return the arguments of a session; without *environ* it does not log in.

    Raises:
        ConfigError: The digest is not where the settings say.
    """
    who = None if environ is None else login(settings.digest, environ)
    tls = settings.tls
    grants: tuple[AclEntry, ...] = CREATOR_AND_READERS if who else ()
    if settings.acl is not None:
        grants = tuple(AclEntry.parse(line) for line in settings.acl)
    return {
        "ensemble": settings.ensemble,
        "timeout_s": settings.session_timeout_s,
        "login": who,
        "grants": grants,
        "tls": Trust(*(Path(one) if one else None for one in attrs.astuple(tls))) if tls else None,
    }


def _left(end_s: float) -> float:
    return max(0.0, end_s - time.monotonic())


_WHERE = "discovery zookeeper: digest"


def login(source: str, environ: Mapping[str, str]) -> Login | None:
    """Return the login at ZooKeeper; None if *source* is empty.

    Args:
        source: ``file:PATH``, ``env:NAME`` or empty.
        environ: The master's environment.

    Raises:
        ConfigError: The place is missing, or holds no ``user:password``. The message never quotes
            its content.
    """
    kind, _, name = source.partition(":")
    if not source:
        return None
    if kind == "env":
        if name not in environ:
            raise ConfigError(
                f"the environment variable {name} is not set",
                where=_WHERE,
                next_step="Set it in the master's environment.",
            )
        return Login.parse(environ[name], f"{_WHERE} (the environment variable {name})")
    try:
        text = Path(name).expanduser().read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "no text"
        raise ConfigError(
            f"the file {name} cannot be read ({why})",
            where=_WHERE,
            next_step="It must be on the master's machine, and readable by the master's user.",
        ) from error
    return Login.parse(text, f"{_WHERE} (the file {name})")


def owner(environ: Mapping[str, str]) -> str:
    """Return the user who runs this master."""
    # "USER" comes first: YARN sets it to the submitting user, also where every container runs as
    # one system user. After that in Hadoop's order: "HADOOP_USER_NAME", the user of the process.
    if name := environ.get("USER") or environ.get("HADOOP_USER_NAME"):
        return name
    number = os.geteuid()
    try:
        return pwd.getpwuid(number).pw_name
    except KeyError:  # a container may run as a number that has no name
        return str(number)
