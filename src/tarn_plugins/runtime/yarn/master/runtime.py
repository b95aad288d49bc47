"""Instances as containers of a YARN application: the ``Runtime`` that the master speaks to."""

import contextlib
import logging
import threading
from collections.abc import Callable, Iterable
from urllib.parse import urlsplit

import attrs

from tarn.domain import Endpoint, Fact, Recovered, Running, RuntimeWish
from tarn.errors import NotFoundError, ProviderError
from tarn.interfaces import Clock, LogTail, MasterContext
from tarn_plugins.runtime.yarn import YarnSettings, tokens
from tarn_plugins.runtime.yarn.keytab import Renewal
from tarn_plugins.runtime.yarn.layout import Layout
from tarn_plugins.runtime.yarn.master.heartbeat import Heartbeat
from tarn_plugins.runtime.yarn.master.ledger import Ledger
from tarn_plugins.runtime.yarn.master.listening import listening, server_id
from tarn_plugins.runtime.yarn.master.node_pool import ContainerOps, NodePool
from tarn_plugins.runtime.yarn.master.records import is_leftover
from tarn_plugins.runtime.yarn.master.recovery import RecoveredRecords, recover
from tarn_plugins.runtime.yarn.master.waiting import LaunchDeadline
from tarn_plugins.runtime.yarn.messages import (
    AllocatedContainer,
    Files,
    Launcher,
    NodeManagers,
    ResourceManager,
    Submitted,
)
from tarn_plugins.runtime.yarn.staging import Staging

__all__ = ["YarnRuntime", "YarnServices"]

log = logging.getLogger(__name__)

CLOSE_WITHIN_S = 0.3
"""For the thread of the heartbeat, and again for the services: a second is all there is."""
FINISH_WITHIN_S = 30.0
PATIENCE_S = 240.0
"""For a file system that does not answer; YARN gives a silent master up after ten minutes."""
_LOOK_AGAIN_S = 1.0


@attrs.frozen
class YarnServices:
    """What the master reaches outside its process: YARN, HDFS, and the logs of nodes."""

    rm: ResourceManager
    nodes: NodeManagers
    files: Files
    launcher: Launcher
    spec_hash: str = ""
    """Of the present launch, for instances whose launch files cannot be read; '' : not known."""
    application_id: str = ""
    """Whose master this is; '' : not known, and then the staging directory is never removed."""
    logs: Callable[[AllocatedContainer, int], LogTail] | None = None
    """Return the last lines of what a container wrote; blocks. None: nobody can."""
    renewal: Renewal = attrs.field(factory=Renewal)
    """Whether new delegation tokens come when the first ones have ended."""
    server_id: Callable[[Endpoint], str] = server_id
    """Asks a Triton for its id, as `listening.server_id`."""


class YarnRuntime:
    """One master's hold on its application: `apply` and `facts` never wait for YARN long."""

    def __init__(
        self,
        context: MasterContext,
        settings: YarnSettings,
        submitted: Submitted,
        services: YarnServices,
    ) -> None:
        self._context = context
        self._submitted = submitted
        self._services = services
        self._layout = Layout(submitted.staging)
        self._staging = Staging(services.files, self._layout, _over, context.clock.at)
        plain = submitted.placement == "plain"
        self._beat = Heartbeat(
            services.rm,
            Ledger(
                context.spec.placement,
                plain=plain,
                closing=_closing(submitted, services.renewal, context.clock),
            ),
            context.clock,
            context.wake,
            settings.heartbeat_s,
        )
        hands = ContainerOps(
            services.nodes, services.files, services.launcher, self._layout.launches
        )
        self._pool = NodePool(hands, self._beat.told, self._beat.calling)
        self._leaving = threading.Event()

    def start(self, api_url: str) -> Recovered:
        """Register the application, and adopt the containers that earlier masters left running.

        Raises:
            ProviderError: The launch files could not be listed, for `PATIENCE_S` or at all: what
                runs stays, and the next attempt looks again.
        """
        url = urlsplit(api_url)
        registered = self._beat.register(url.hostname or "", url.port or 0, api_url)
        memory, notes = self._remember(registered.recovered)
        recovery = recover(registered.recovered, memory)
        self._beat.begin(recovery, memory, self._pool)
        running = tuple(f for f in self.facts() if isinstance(f, Running))
        return Recovered(running, (*notes, *recovery.notes))

    def apply(self, wish: RuntimeWish) -> None:
        """Post *wish*; what it brings about becomes facts."""
        self._beat.apply_wish(wish)

    def facts(self) -> tuple[Fact, ...]:
        """Return one fact for each instance."""
        return self._beat.facts()

    def heard_s(self) -> float:
        """Return the monotonic second of the ResourceManager's last good answer."""
        return self._beat.heard_s

    def warnings(self) -> tuple[str, ...]:
        """Say what works less well than it could, and until when."""
        clock = self._context.clock
        lines = (
            _mute(self._beat.mute()),
            _plain(self._submitted),
            tokens.warning(self._submitted.tokens_end_at, clock.at(), self._services.renewal),
        )
        return tuple(line for line in lines if line)

    def log(self, instance_id: str, lines: int) -> LogTail:
        """Return the end of an instance's log, from the node of its container."""
        grant = self._beat.grant(instance_id)
        if grant is None or self._services.logs is None:
            raise NotFoundError(
                f"the container of '{instance_id}' is not known",
                where=self._context.spec.name,
                next_step=f"`tarn logs {instance_id}` reads what YARN has collected",
            )
        return self._services.logs(grant, lines)

    def finish(self) -> None:
        """End the application, and remove the cluster's directory, if it is still this one's.

        Once the application is over, another `up` may take the name and the directory. What the
        file system refuses (a token may have ended) stays, and is told in the log: the application
        is over all the same.
        """
        self._beat.finish("the cluster was ended", FINISH_WITHIN_S)
        try:
            self._staging.remove(self._services.application_id)
        except ProviderError as error:
            log.warning("the cluster's directory was not removed: %s", error)

    def close(self) -> None:
        """Leave; containers stay."""
        if self._leaving.is_set():
            return
        self._leaving.set()
        self._beat.close(CLOSE_WITHIN_S)
        self._pool.close()
        _within(CLOSE_WITHIN_S, self._close_doors)

    def _close_doors(self) -> None:
        for close in (self._services.rm.close, self._services.nodes.close):
            with contextlib.suppress(ProviderError):
                close()

    def _remember(
        self, grants: Iterable[AllocatedContainer]
    ) -> tuple[RecoveredRecords, tuple[str, ...]]:
        """Read what earlier masters left; without the tokens for it, ask the *grants*' servers."""
        spec = self._context.spec
        try:
            return RecoveredRecords.read(self._launch_files())
        except ProviderError as error:
            if error.code != tokens.TOKENS_ENDED:
                raise
            words = f"the launch files could not be listed ({error})"
        log.warning("%s", words)
        found = listening(spec.name, spec.triton, grants, self._services.server_id)
        note = (
            f"{words}; instances are known by number only, and {len(found)} reported where they "
            "listen"
        )
        return RecoveredRecords.lost(spec, self._services.spec_hash, found), (note,)

    def _launch_files(self) -> tuple[str, ...]:
        """Return the names of the launch files; a file system that is away is waited for."""
        clock = self._context.clock
        give_up_s = clock.now_s() + PATIENCE_S
        while True:
            try:
                entries = self._services.files.listing(self._layout.launches)
            except NotFoundError:
                return ()
            except ProviderError as error:
                ended = error.code == tokens.TOKENS_ENDED or error.retry_after_s is None
                if ended or clock.now_s() >= give_up_s or self._leaving.wait(_LOOK_AGAIN_S):
                    raise
                continue
            left = {entry.path: entry.uri for entry in entries if is_leftover(entry.path)}
            with contextlib.suppress(ProviderError):  # the next master comes by, too
                for uri in left.values():
                    self._services.files.remove(uri)
            return tuple(entry.path for entry in entries if entry.path not in left)


def _over(_application_id: str) -> bool:
    """Stand in for YARN: a master takes over from nobody."""
    return False


def _mute(words: str) -> str:
    return f"TARN-1017 {words}: nothing starts or ends; instances go on serving" if words else ""


def _plain(submitted: Submitted) -> str:
    if submitted.placement != "plain":
        return ""
    return (
        "TARN-1015 YARN takes no placement constraints "
        f"({submitted.placement_reason or 'no reason given'}): TARN keeps to one instance per "
        "node by refusing nodes, within this cluster only"
    )


def _closing(submitted: Submitted, renewal: Renewal, clock: Clock) -> LaunchDeadline:
    """Return from when on no instance can start: each fetches files with a delegation token."""
    ends_at = submitted.tokens_end_at
    if ends_at is None or renewal.works:
        return LaunchDeadline()
    return LaunchDeadline(clock.now_s() + ends_at - clock.at(), tokens.refusal(ends_at))


def _within(within_s: float, call: Callable[[], None]) -> None:
    """Call on a thread of its own, and wait for it no longer than *within_s*."""
    thread = threading.Thread(target=call, name="yarn-close", daemon=True)
    thread.start()
    thread.join(within_s)
