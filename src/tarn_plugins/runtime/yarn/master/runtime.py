"""Instances as containers of a YARN application: the master's ``Runtime``."""

import contextlib
import logging
import threading
from collections.abc import Callable, Iterable
from urllib.parse import urlsplit

import attrs

from tarn.domain import Endpoint, Fact, Issue, Recovered, Running, RuntimeWish
from tarn.errors import NotFoundError, ProviderError
from tarn.interfaces import Clock, LogTail, MasterContext
from tarn_plugins.runtime.yarn import YarnSettings, tokens
from tarn_plugins.runtime.yarn.keytab import Renewal
from tarn_plugins.runtime.yarn.master.asks import LaunchDeadline
from tarn_plugins.runtime.yarn.master.heartbeat import Heartbeat
from tarn_plugins.runtime.yarn.master.ledger import Ledger
from tarn_plugins.runtime.yarn.master.node_pool import ContainerOps, NodePool
from tarn_plugins.runtime.yarn.master.recovery import (
    RecoveredRecords,
    is_leftover,
    listening,
    recover,
    server_id,
)
from tarn_plugins.runtime.yarn.messages import (
    AllocatedContainer,
    Files,
    Launcher,
    NodeManagers,
    ResourceManager,
    Submitted,
)
from tarn_plugins.runtime.yarn.staging import Layout, Staging

__all__ = ["YarnRuntime", "YarnServices"]

log = logging.getLogger(__name__)

# For the thread of the heartbeat, and again for the services; a master must leave in a second.
CLOSE_WITHIN_S = 0.3
FINISH_WITHIN_S = 30.0
# For a file system that does not answer; YARN gives up a silent master after ten minutes.
PATIENCE_S = 240.0
_LOOK_AGAIN_S = 1.0


@attrs.frozen
class YarnServices:
    """The master's access to YARN, HDFS, and the logs of nodes."""

    rm: ResourceManager
    nodes: NodeManagers
    files: Files
    launcher: Launcher
    spec_hash: str = ""
    """Of the present launch, for instances whose launch files are unreadable; or ''."""
    application_id: str = ""
    """This master's application; '' if unknown: then the staging directory stays."""
    logs: Callable[[AllocatedContainer, int], LogTail] | None = None
    """Returns the last lines of a container's output; blocks. None: not available."""
    renewal: Renewal = attrs.field(factory=Renewal)
    """Whether new delegation tokens replace those that end."""
    server_id: Callable[[Endpoint], str] = server_id
    """Returns the id of the Triton at an endpoint, as `recovery.server_id`."""


class YarnRuntime:
    """One master's application; `apply` and `facts` never wait long for YARN."""

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
        # A master never takes over a name, so it needs no other application's state.
        self._staging = Staging(services.files, self._layout, lambda _: False, context.clock.at)
        plain = submitted.placement == "plain"
        self._beat = Heartbeat(
            services.rm,
            Ledger(
                context.spec.placement,
                plain=plain,
                closing=_launch_deadline(submitted, services.renewal, context.clock),
            ),
            context.clock,
            context.wake,
            settings.heartbeat_s,
        )
        ops = ContainerOps(services.nodes, services.files, services.launcher, self._layout.launches)
        self._pool = NodePool(ops, self._beat.told, self._beat.calling)
        self._leaving = threading.Event()

    def start(self, api_url: str) -> Recovered:
        """Register the application, and adopt the running containers of earlier masters.

        Raises:
            ProviderError: The launch files could not be listed, for `PATIENCE_S` or at all. The
                containers stay for the next attempt.
        """
        url = urlsplit(api_url)
        registered = self._beat.register(url.hostname or "", url.port or 0, api_url)
        memory, notes = self._remember(registered.recovered)
        recovery = recover(registered.recovered, memory)
        self._beat.begin(recovery, memory, self._pool)
        running = tuple(f for f in self.facts() if isinstance(f, Running))
        return Recovered(running, (*notes, *recovery.notes))

    def apply(self, wish: RuntimeWish) -> None:
        """Post *wish*; its effects become facts."""
        self._beat.apply_wish(wish)

    def facts(self) -> tuple[Fact, ...]:
        """Return one fact for each instance."""
        return self._beat.facts()

    def heard_s(self) -> float:
        """Return the monotonic second of the ResourceManager's last good answer."""
        return self._beat.heard_s

    def warnings(self) -> tuple[Issue, ...]:
        """Return the present limitations, with their ends."""
        found, submitted = [], self._submitted
        if mute := self._beat.mute():
            effect = "nothing starts or ends; instances go on serving"
            found.append(Issue("", f"{mute}: {effect}", code="TARN-1017"))
        if submitted.placement == "plain":
            words = (
                "YARN takes no placement constraints "
                f"({submitted.placement_reason or 'no reason given'}): TARN keeps to one instance "
                "per node by refusing nodes, within this cluster only"
            )
            found.append(Issue("", words, code="TARN-1015"))
        at = self._context.clock.at()
        ends = tokens.issue(submitted.tokens_end_at, at, self._services.renewal)
        return (*found, *([] if ends is None else [ends]))

    def log(self, instance_id: str, lines: int) -> LogTail:
        """Return the last *lines* of an instance's log, from its node."""
        grant = self._beat.grant(instance_id)
        if grant is None or self._services.logs is None:
            raise NotFoundError(
                f"the container of '{instance_id}' is not known",
                where=self._context.spec.name,
                next_step=f"`tarn logs {instance_id}` reads the logs that YARN has aggregated",
            )
        return self._services.logs(grant, lines)

    def finish(self) -> None:
        """End the application, and remove the cluster's directory if it still owns it."""
        # Once the application has ended, another `up` may take the name and the directory.
        self._beat.finish("the cluster was ended", FINISH_WITHIN_S)
        try:
            self._staging.remove(self._services.application_id)
        except ProviderError as error:  # such as for an ended token; the application ended anyhow
            log.warning("the cluster's directory was not removed: %s", error)

    def close(self) -> None:
        """Disconnect from YARN; containers keep running."""
        if self._leaving.is_set():
            return
        self._leaving.set()
        self._beat.close(CLOSE_WITHIN_S)
        self._pool.close()

        def disconnect() -> None:
            for close in (self._services.rm.close, self._services.nodes.close):
                with contextlib.suppress(ProviderError):
                    close()

        # On a thread, since Java may block for longer.
        thread = threading.Thread(target=disconnect, name="yarn-close", daemon=True)
        thread.start()
        thread.join(CLOSE_WITHIN_S)

    def _remember(
        self, grants: Iterable[AllocatedContainer]
    ) -> tuple[RecoveredRecords, tuple[str, ...]]:
        """Read the records of earlier masters; if the tokens ended, ask the Tritons of *grants*."""
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
        """Return the names of the launch files; wait for an absent file system."""
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
            with contextlib.suppress(ProviderError):  # left to the next master
                for uri in left.values():
                    self._services.files.remove(uri)
            return tuple(entry.path for entry in entries if entry.path not in left)


def _launch_deadline(submitted: Submitted, renewal: Renewal, clock: Clock) -> LaunchDeadline:
    # Each new instance fetches files with a delegation token.
    ends_at = submitted.tokens_end_at
    if ends_at is None or renewal.works:
        return LaunchDeadline()
    return LaunchDeadline(clock.now_s() + ends_at - clock.at(), tokens.refusal(ends_at))
