"""The one ZooKeeper session of a process: every call has a deadline, every error is TARN's.

Nothing starts before the first use, so a process may fork after it imported this. Kazoo calls
listeners on the thread that carries the answers: a call from there would wait for itself. So the
one listener here only wakes whoever asked to be woken.
"""

import contextlib
import ssl
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, Final, NoReturn

import attrs
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
from kazoo.security import ACL, Id, Permissions

from tarn.errors import ConfigError, DiscoveryError
from tarn.zk.acl import AclEntry, Login
from tarn.zk.failures import translated
from tarn.zk.kazoo_handler import KazooHandler, silent_logger
from tarn.zk.nodes import check_ensemble
from tarn.zk.operations import CheckVersion, Create, Delete, Operation, SetData, ZNode

__all__ = ["TlsFiles", "ZooKeeperSession"]

CALL_S: Final = 5.0
"""Longest wait for one answer."""
CLOSE_S: Final = 0.7
_FOLLOWERS: Final = (RolledBackError, RuntimeInconsistency)
"""What the operations next to the failed one get: no reason of their own."""
_ENDS: Final = (KeeperState.AUTH_FAILED, KeeperState.CLOSED)
"""States that kazoo does not leave by itself."""


@attrs.frozen
class TlsFiles:
    """Files in PEM form; ``cert`` and ``key`` where the servers want to know the client."""

    ca: str = ""
    cert: str = ""
    key: str = ""


class ZooKeeperSession:
    """One session with an ensemble; any thread may call, none may from a callback of kazoo's.

    Args:
        ensemble: ``host:port,host:port``, with a chroot (``/a/b``) at its end where wanted.
        timeout_s: After this long without a message, the servers end the session.
        login: User and password of the scheme ``digest``.
        grants: Who may do what with the nodes that this session makes.
        tls: None: not encrypted.
        changed: Called when the connection came, broke or was lost: on kazoo's thread, so it must
            only wake somebody.

    Raises:
        ConfigError: *ensemble* names no servers; a file of *tls* is missing, or unusable.
    """

    def __init__(  # noqa: PLR0913 (what a connection is made of, all by keyword)
        self,
        ensemble: str,
        *,
        timeout_s: float = 10.0,
        login: Login | None = None,
        grants: Sequence[AclEntry] = (),
        tls: TlsFiles | None = None,
        changed: Callable[[], None] = lambda: None,
    ) -> None:
        self.ensemble = check_ensemble(ensemble)
        # Kazoo makes no chroot that is missing; so paths get it here, and it is a path as others.
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
        self._ended: tuple[KazooClient, str] | None = None
        """The client that gave up by itself, and kazoo's word for it: it is replaced."""
        self._closed = False

    # -- the connection

    @property
    def connected(self) -> bool:
        """Whether the servers answer at present."""
        return self._client is not None and bool(self._client.connected)

    @property
    def id(self) -> int:
        """The number of the session, which owns what it made; 0 where there is none now."""
        client = self._client
        known = client.client_id if client is not None and client.connected else None
        return int(known[0]) if known else 0

    def connect(self, within_s: float = CALL_S) -> None:
        """Wait until the servers answer; the client goes on trying also when they did not.

        Raises:
            DiscoveryError: They did not within *within_s* seconds.
        """
        self._started(within_s, "connect")

    def close(self, within_s: float = CLOSE_S) -> None:
        """End the session: ephemeral nodes go at once. Idempotent, waits *within_s* at most."""
        self._leave(within_s)

    def abandon(self, within_s: float = CLOSE_S) -> None:
        """Leave without ending the session: what it made stays until the servers miss it.

        Idempotent, waits *within_s* at most.
        """
        with self._guard:
            self._closed, line = True, self._line
        if line is not None:
            line.cut()
        self._leave(within_s)

    # -- reading

    def read(self, path: str, within_s: float = CALL_S) -> bytes | None:
        """Return what a node holds; None where there is no such node.

        Raises:
            DiscoveryError: The servers did not answer, or refused.
        """
        node = self.get(path, within_s)
        return None if node is None else node.data

    def get(self, path: str, within_s: float = CALL_S) -> ZNode | None:
        """Return a node; None where there is none.

        Raises:
            DiscoveryError: The servers did not answer, or refused.
        """
        return self.get_all([path], within_s).get(path)

    def get_all(self, paths: Iterable[str], within_s: float = CALL_S) -> dict[str, ZNode]:
        """Return those of *paths* that exist; asked for in one go.

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
        """Return the names below a node, sorted; none where there is no such node.

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
        """Return what a node holds, and call *wake* once when that is no longer so.

        *wake* comes on a thread of kazoo's: it must only wake somebody, who then calls this again.
        It also comes when the connection broke. A node that is missing wakes when it is made.

        Raises:
            DiscoveryError: The servers did not answer, or refused; *wake* may still come.
        """
        doing = f"watch {path}"
        end_s = time.monotonic() + within_s
        client = self._started(within_s, doing)
        # `exists` leaves a watch also where there is no node yet; the order loses no change.
        asked = client.exists_async(self._root + path, watch=lambda _event: wake())
        self._answer(asked, end_s, doing)
        return self.read(path, max(0.0, end_s - time.monotonic()))

    # -- writing

    def ensure(self, path: str, within_s: float = CALL_S) -> None:
        """Make *path* and what is above it, where it is missing; the chroot too.

        Raises:
            DiscoveryError: The servers did not answer, or refused.
        """
        doing = f"make {path}"
        end_s = time.monotonic() + within_s
        client = self._started(within_s, doing)
        # From below: whoever may publish need not be allowed to read what is far above.
        missing: list[str] = []
        at = self._root + path
        while at and self._answer(client.exists_async(at), end_s, doing) is None:
            missing.append(at)
            at = at.rpartition("/")[0]
        for node in reversed(missing):
            with contextlib.suppress(NodeExistsError):  # somebody was faster
                self._answer(client.create_async(node, b"", self._acl), end_s, doing)

    def commit(
        self, operations: Sequence[Operation], session_id: int, within_s: float = CALL_S
    ) -> None:
        """Do all of *operations* or none, as the session *session_id*.

        A node that was made by a later session than the one in which it was decided would outlive
        its reason, or be looked for in vain: so the session is compared before and after.

        Raises:
            NodesChangedError: The nodes are not as the operations expect; nothing was done.
            DiscoveryError: No answer, no right, or another session: what was done is unknown.
        """
        doing = f"write {len(operations)} changes"
        end_s = time.monotonic() + within_s
        client = self._started(within_s, doing)
        self._same(session_id, doing)
        transaction = client.transaction()
        for operation in operations:
            place = attrs.evolve(operation, path=self._root + operation.path)
            _add(transaction, place, self._acl)
        results = self._answer(transaction.commit_async(), end_s, doing)
        failures = [one for one in results if isinstance(one, Exception)]
        if failures:  # commit gives errors back as values
            told = [one for one in failures if not isinstance(one, _FOLLOWERS)]
            self._fail((told or failures)[0], doing)
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
        """Return how *client* gave up; empty while it goes on trying."""
        ended = self._ended
        return ended[1] if ended is not None and ended[0] is client else ""

    def _make(self) -> KazooClient:
        self._line = KazooHandler(self._connect_s, self._context, lambda: self._heard(client))
        client = KazooClient(
            self._hosts,
            timeout=self._timeout_s,
            handler=self._line,
            auth_data=[("digest", self._login.text)] if self._login else None,
            # Quick at first: a leader's death is over in a second, and a session need not end.
            connection_retry={"max_tries": -1, "delay": 0.05, "backoff": 2, "max_delay": 0.5},
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
        """Return what came; errors that a caller may expect pass as they are."""
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
    """End a client: kazoo waits up to ten seconds for servers that are away, nobody here can."""
    ending = threading.Thread(target=_end, args=(client,), name="zookeeper end", daemon=True)
    ending.start()
    return ending


def _end(client: KazooClient) -> None:
    with contextlib.suppress(Exception):  # of a connection that nobody will use again
        client.stop()
        client.close()


def _context(tls: TlsFiles | None) -> ssl.SSLContext | None:
    """Return what a handshake needs; with ``ca`` nobody else is believed."""
    if tls is None:
        return None
    for file in (tls.ca, tls.cert, tls.key):
        if file and not Path(file).is_file():
            raise ConfigError(f"the file {file} is missing", where="tls")
    try:
        context = ssl.create_default_context(cafile=tls.ca or None)
        if tls.cert:
            context.load_cert_chain(tls.cert, tls.key, password=lambda: "")
    except (ssl.SSLError, OSError) as error:
        why = error.strerror or type(error).__name__
        raise ConfigError(
            f"the files cannot be used ({why})",
            where="tls",
            right="Use PEM files: a key without a password, and the certificate that belongs to "
            "it.",
        ) from error
    return context


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


def _acl(grant: AclEntry) -> ACL:
    permissions = 0
    for letter in grant.permissions:
        permissions |= _LETTERS[letter]
    return ACL(permissions, Id(grant.scheme, grant.id))


_LETTERS: Final = {
    "c": Permissions.CREATE,
    "d": Permissions.DELETE,
    "r": Permissions.READ,
    "w": Permissions.WRITE,
    "a": Permissions.ADMIN,
}
