"""A ZooKeeper session: every call has a deadline, and raises only TARN's errors.

Nothing starts before the first use, so a process may fork after this import.
"""

import contextlib
import ssl
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, NoReturn

import attrs
from kazoo import exceptions as theirs
from kazoo.client import KazooClient
from kazoo.exceptions import (
    AuthFailedError,
    ConnectionLoss,
    KazooException,
    NodeExistsError,
    NoNodeError,
    RolledBackError,
    RuntimeInconsistency,
    SessionExpiredError,
)
from kazoo.protocol.states import KeeperState
from kazoo.security import ACL, make_acl

from tarn.errors import ConfigError, DiscoveryError
from tarn.tls.contexts import Trust
from tarn.zk.kazoo_handler import KazooHandler, silent_logger
from tarn.zk.nodes import (
    AclEntry,
    CheckVersion,
    Create,
    Delete,
    Login,
    Operation,
    SetData,
    ZNode,
    check_ensemble,
)

__all__ = ["NodesChangedError", "ZooKeeperSession", "translated"]

RETRY_S = 1.0
_TLS = "A failed TLS handshake looks the same: check tls.ca, tls.cert and tls.key, and the port."
_ANSWERS = (
    "Check that the servers run and can be reached from here.",
    f"Check that the servers run and can be reached from here. {_TLS}",
)


class NodesChangedError(DiscoveryError):
    """Another session changed the nodes of a transaction; nothing of it was done."""


_CHANGED = (
    theirs.BadVersionError,
    theirs.NoNodeError,
    theirs.NodeExistsError,
    theirs.NotEmptyError,
)


def translated(
    error: BaseException, ensemble: str, doing: str, *, tls: bool = False, last: str = ""
) -> DiscoveryError:
    """Return TARN's error for one of kazoo's; the caller chains the cause.

    Args:
        error: What kazoo raised or returned.
        ensemble: The servers, without a secret.
        doing: What was tried, to follow "could not".
        tls: Whether the connection is encrypted.
        last: Why the last attempt to connect failed, if known.
    """
    where = f"ZooKeeper {ensemble}"
    if isinstance(error, _CHANGED):
        found = f"could not {doing}: somebody else changed the nodes ({_name(error)})"
        return NodesChangedError("zookeeper", found, where=where, retry_after_s=RETRY_S)
    if isinstance(error, theirs.NoAuthError):
        return DiscoveryError(
            "zookeeper",
            f"could not {doing}: this user may not",
            code="TARN-3302",
            where=where,
            next_step="Give the digest of the user in the nodes' ACL, or have the ACL changed.",
        )
    if isinstance(error, theirs.AuthFailedError):
        return DiscoveryError(
            "zookeeper",
            f"could not {doing}: the servers refuse the digest",
            code="TARN-3302",
            where=where,
            next_step="Write user:password where 'digest' points.",
        )
    if isinstance(error, theirs.InvalidACLError):
        return DiscoveryError(
            "zookeeper",
            f"could not {doing}: the servers do not take the ACL of the new nodes",
            code="TARN-3302",
            where=where,
            next_step="A line of `acl` that begins with 'auth' needs `digest`; correct the others.",
        )
    why = f" ({last})" if last else f" ({_name(error)})"
    return DiscoveryError(
        "zookeeper",
        f"could not {doing}: no answer{why}",
        code="TARN-3301",
        where=where,
        retry_after_s=RETRY_S,
        next_step=_ANSWERS[tls],
    )


def _name(error: BaseException) -> str:
    # Not the text of the error, which may contain a secret.
    return type(error).__name__.removesuffix("Error")


# Longest wait for one answer.
CALL_S: Final = 5.0
CLOSE_S: Final = 0.7
# Results of the other operations of a failed transaction; they say nothing about the reason.
_FOLLOWERS: Final = (RolledBackError, RuntimeInconsistency)
# States that kazoo does not leave by itself.
_ENDS: Final = (KeeperState.AUTH_FAILED, KeeperState.CLOSED)


class ZooKeeperSession:
    """One session with an ensemble. Thread-safe, but not to be called from kazoo's callbacks.

    Args:
        ensemble: ``host:port,host:port``, optionally with a chroot (``/a/b``) at the end.
        timeout_s: After this long without a message, the servers end the session.
        login: User and password of the scheme ``digest``.
        grants: The ACL of nodes that this session creates.
        tls: The certificates for TLS; None for plain connections.
        changed: Called on kazoo's thread when the connection is made, broken or lost. It must only
            wake another thread: this one also carries the answers, so a call would wait for itself.

    Raises:
        ConfigError: *ensemble* is not valid, or a file of *tls* cannot be used.
    """

    def __init__(  # noqa: PLR0913 (the options of a connection, by keyword)
        self,
        ensemble: str,
        *,
        timeout_s: float = 10.0,
        login: Login | None = None,
        grants: Sequence[AclEntry] = (),
        tls: Trust | None = None,
        changed: Callable[[], None] = lambda: None,
    ) -> None:
        self.ensemble = check_ensemble(ensemble)
        # Kazoo does not create a missing chroot, so it is part of every path here.
        self._hosts, slash, root = ensemble.partition("/")
        self._root = f"{slash}{root}".rstrip("/")
        self._timeout_s = timeout_s
        self._login = login
        self._acl = [_acl(grant) for grant in grants] or None
        self._tls = tls
        self._changed = changed
        self._guard = threading.Lock()
        self._flipped = threading.Condition()
        self._connect_s = max(0.5, timeout_s / (ensemble.count(",") + 2))
        self._context = _context(tls)
        self._line: KazooHandler | None = None
        self._client: KazooClient | None = None
        # A client that ended by itself and must be replaced, with its last state.
        self._ended: tuple[KazooClient, str] | None = None
        self._closed = False

    # -- the connection

    @property
    def connected(self) -> bool:
        """Whether the servers answer at present."""
        return self._client is not None and bool(self._client.connected)

    @property
    def id(self) -> int:
        """The id of the session, which owns its ephemeral nodes; 0 if there is none now."""
        client = self._client
        known = client.client_id if client is not None and client.connected else None
        return int(known[0]) if known else 0

    def connect(self, within_s: float = CALL_S) -> None:
        """Wait until the servers answer; after an error the client goes on trying.

        Raises:
            DiscoveryError: They did not answer within *within_s* seconds.
        """
        self._started(within_s, "connect")

    def close(self, within_s: float = CLOSE_S) -> None:
        """End the session and its ephemeral nodes. Idempotent, waits *within_s* at most."""
        self._leave(within_s)

    def abandon(self, within_s: float = CLOSE_S) -> None:
        """Disconnect without ending the session: its nodes stay until it times out.

        Idempotent, waits *within_s* at most.
        """
        with self._guard:
            self._closed, line = True, self._line
        if line is not None:
            line.cut()
        self._leave(within_s)

    # -- reading

    def read(self, path: str, within_s: float = CALL_S) -> bytes | None:
        """Return the data of a node; None if it does not exist.

        Raises:
            DiscoveryError: The servers did not answer, or refused.
        """
        node = self.get(path, within_s)
        return None if node is None else node.data

    def get(self, path: str, within_s: float = CALL_S) -> ZNode | None:
        """Return a node; None if it does not exist.

        Raises:
            DiscoveryError: The servers did not answer, or refused.
        """
        return self.get_all([path], within_s).get(path)

    def get_all(self, paths: Iterable[str], within_s: float = CALL_S) -> dict[str, ZNode]:
        """Return those of *paths* that exist, in one round trip.

        Raises:
            DiscoveryError: The servers did not answer, or refused.
        """
        doing = "read the nodes"
        end_s = time.monotonic() + within_s
        client = self._started(within_s, doing)
        asked = [(path, client.get_async(self._root + path)) for path in paths]
        found: dict[str, ZNode] = {}
        for path, answer in asked:
            with contextlib.suppress(NoNodeError):
                data, stat = self._answer(answer, end_s, doing)
                found[path] = ZNode(data, stat.version, stat.ephemeralOwner)
        return found

    def children(self, path: str, within_s: float = CALL_S) -> tuple[str, ...]:
        """Return the sorted names of the children of a node; none if it does not exist.

        Raises:
            DiscoveryError: The servers did not answer, or refused.
        """
        doing = f"list {path}"
        end_s = time.monotonic() + within_s
        client = self._started(within_s, doing)
        try:
            asked = client.get_children_async(self._root + path)
            return tuple(sorted(self._answer(asked, end_s, doing)))
        except NoNodeError:
            return ()

    def watch(self, path: str, wake: Callable[[], None], within_s: float = CALL_S) -> bytes | None:
        """Return the data of a node, and call *wake* once when it changes.

        *wake* is also called when a missing node is created, and when the connection breaks. It is
        called on kazoo's thread, so it must only wake another one, which then calls this again.

        Raises:
            DiscoveryError: The servers did not answer, or refused; *wake* may still be called.
        """
        doing = f"watch {path}"
        end_s = time.monotonic() + within_s
        client = self._started(within_s, doing)
        # `exists` also watches a missing node. Since the data is read later, no change is lost.
        asked = client.exists_async(self._root + path, watch=lambda _event: wake())
        self._answer(asked, end_s, doing)
        return self.read(path, max(0.0, end_s - time.monotonic()))

    # -- writing

    def ensure(self, path: str, within_s: float = CALL_S) -> None:
        """Create *path*, its missing parents and the chroot.

        Raises:
            DiscoveryError: The servers did not answer, or refused.
        """
        doing = f"make {path}"
        end_s = time.monotonic() + within_s
        client = self._started(within_s, doing)
        # From below, since a user who may publish here may have no right to read nodes far above.
        missing: list[str] = []
        at = self._root + path
        while at and self._answer(client.exists_async(at), end_s, doing) is None:
            missing.append(at)
            at = at.rpartition("/")[0]
        for node in reversed(missing):
            with contextlib.suppress(NodeExistsError):  # another session was faster
                self._answer(client.create_async(node, b"", self._acl), end_s, doing)

    def commit(
        self, operations: Sequence[Operation], session_id: int, within_s: float = CALL_S
    ) -> None:
        """Do all of *operations* or none, as the session *session_id*.

        Raises:
            NodesChangedError: The nodes are not as the operations expect; nothing was done.
            DiscoveryError: No answer, no right, or another session: what was done is unknown.
        """
        doing = f"write {len(operations)} changes"
        end_s = time.monotonic() + within_s
        client = self._started(within_s, doing)
        # Checked before and after: the operations were decided for this session, and an ephemeral
        # node of a later one would live longer than intended.
        self._same(session_id, doing)
        transaction = client.transaction()
        for operation in operations:
            place = attrs.evolve(operation, path=self._root + operation.path)
            _add(transaction, place, self._acl)
        results = self._answer(transaction.commit_async(), end_s, doing)
        failures = [one for one in results if isinstance(one, Exception)]
        if failures:  # commit returns errors as values
            reasons = [one for one in failures if not isinstance(one, _FOLLOWERS)]
            self._fail((reasons or failures)[0], doing)
        self._same(session_id, doing)

    # -- inside

    def _started(self, within_s: float, doing: str) -> KazooClient:
        with self._guard:
            if self._closed:
                raise DiscoveryError("zookeeper", f"could not {doing}: the session was closed")
            if self._client is not None and self._end_of(self._client):
                _end_aside(self._client)
                self._client = None
            if self._client is None:
                self._client = self._make()
            client = self._client
        with self._flipped:
            self._flipped.wait_for(
                lambda: client.connected or self._closed or self._end_of(client), within_s
            )
        if not client.connected:
            refused = self._end_of(client) == KeeperState.AUTH_FAILED
            self._fail(AuthFailedError() if refused else ConnectionLoss(), doing)
        return client

    def _end_of(self, client: KazooClient) -> str:
        """Return the state in which *client* ended; empty while it goes on trying."""
        ended = self._ended
        return ended[1] if ended is not None and ended[0] is client else ""

    def _make(self) -> KazooClient:
        self._line = KazooHandler(self._connect_s, self._context, lambda: self._heard(client))
        client = KazooClient(
            self._hosts,
            timeout=self._timeout_s,
            handler=self._line,
            auth_data=[("digest", self._login.text)] if self._login else None,
            # Quick at first: a new leader is elected in about a second, before the session ends.
            connection_retry={"max_tries": -1, "delay": 0.05, "backoff": 2, "max_delay": 0.5},
            # The callers here have deadlines of their own.
            command_retry={"max_tries": 0},
            logger=silent_logger(),
            use_ssl=self._tls is not None,
        )
        client.add_listener(lambda _state: self._heard(client))
        client.start_async()
        return client

    def _heard(self, client: KazooClient) -> None:
        state = client.client_state
        if state in _ENDS and not self._end_of(client):
            self._ended = (client, str(state))
        with self._flipped:
            self._flipped.notify_all()
        self._changed()

    def _same(self, session_id: int, doing: str) -> None:
        if self.id != session_id:
            self._fail(SessionExpiredError(), doing)

    def _answer(self, answer: Any, end_s: float, doing: str) -> Any:
        """Return the answer; errors that a caller may expect are not translated."""
        try:
            return answer.get(timeout=max(0.001, end_s - time.monotonic()))
        except (NoNodeError, NodeExistsError):
            raise
        except (KazooException, KazooHandler.timeout_exception) as error:
            self._fail(error, doing)

    def _fail(self, error: Exception, doing: str) -> NoReturn:
        last = self._line.last if self._line is not None else ""
        tls = self._tls is not None
        raise translated(error, self.ensemble, doing, tls=tls, last=last) from error

    def _leave(self, within_s: float) -> None:
        with self._guard:
            self._closed, client, self._client = True, self._client, None
        with self._flipped:
            self._flipped.notify_all()
        if client is None:
            return
        _end_aside(client).join(within_s)


def _end_aside(client: KazooClient) -> threading.Thread:
    """End a client on a thread: kazoo waits up to ten seconds for servers that are away."""

    def end() -> None:
        with contextlib.suppress(Exception):  # the connection is not used again
            client.stop()
            client.close()

    ending = threading.Thread(target=end, name="zookeeper end", daemon=True)
    ending.start()
    return ending


def _context(tls: Trust | None) -> ssl.SSLContext | None:
    if tls is None:
        return None
    try:
        return tls.context()
    except ConfigError as error:
        raise ConfigError(
            f"the file {error.where} {error.found}",
            where="tls",
            right="Use PEM files: a key without a password, and the certificate that belongs to "
            "it.",
        ) from error


def _add(transaction: Any, operation: Operation, acl: list[ACL] | None) -> None:
    match operation:
        case Create(path, data, ephemeral):
            transaction.create(path, data, acl=acl, ephemeral=ephemeral)
        case Delete(path):
            transaction.delete(path)
        case SetData(path, data, version):
            transaction.set_data(path, data, version)
        case CheckVersion(path, version):
            transaction.check(path, version)


def _acl(grant: AclEntry) -> Any:
    """Return *grant* in kazoo's form."""
    may = {name: name[0] in grant.permissions for name in ("create", "delete", "read", "write")}
    return make_acl(grant.scheme, grant.id, admin="a" in grant.permissions, **may)
