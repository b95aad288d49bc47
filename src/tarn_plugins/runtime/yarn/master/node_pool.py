"""Calls to nodes and files on a few threads, in order for each node."""

import logging
import threading
from collections import deque
from collections.abc import Callable

import attrs

from tarn.errors import LaunchError, TarnError
from tarn_plugins.runtime.yarn.master.recovery import avoided_name, file_name
from tarn_plugins.runtime.yarn.master.slots import Forget, Job, Note, Start, Stop
from tarn_plugins.runtime.yarn.messages import Files, Launcher, NodeManagers

__all__ = ["ContainerOps", "FailedCall", "NodePool"]

log = logging.getLogger(__name__)

# A thread stays for good once it called Java. This many dead nodes do not delay a live one.
THREADS = 8
CLOSE_WITHIN_S = 0.2


@attrs.frozen
class FailedCall:
    """A failed job."""

    error: Exception
    at_node: bool
    """Whether the NodeManager refused or did not answer."""


# Called with the result of each job, on the thread that did it.
Result = Callable[[Job, FailedCall | None], None]
# Returns whether a prepared container may start. Called on the thread that would start it.
MayCall = Callable[[Start], bool]


@attrs.frozen
class ContainerOps:
    """Does jobs. Every call that it makes has a deadline."""

    nodes: NodeManagers
    files: Files
    launcher: Launcher
    launches: str
    """URI of the directory with the launch files."""

    def do(self, job: Job, may_call: MayCall = lambda _: True) -> FailedCall | None:
        """Do one job, and return its failure, so that no job is ever lost; blocks.

        Args:
            job: The job.
            may_call: Called before a node is told to start a container. The preparation may have
                taken minutes, in which it was given up, or the master began to leave.
        """
        at_node = False
        try:
            match job:
                case Start(grant=grant, record=record, launch=launch):
                    prepared = self.launcher.prepare(record, launch)
                    if not may_call(job):
                        found = "it was cancelled before its node was contacted"
                        return FailedCall(LaunchError("yarn", found, retry_after_s=1.0), at_node)
                    at_node = True
                    self.nodes.start(grant, prepared)
                case Stop(grant=grant):
                    at_node = True
                    self.nodes.stop(grant)
                case Forget(record=record, diagnostics=diagnostics):
                    self.launcher.note_diagnostics(diagnostics)
                    self.files.remove(f"{self.launches}/{file_name(record)}")
                case Note():
                    self._note(job)
        except TarnError as error:
            return FailedCall(error, at_node)
        except Exception as error:
            log.exception("a job for a node raised")
            return FailedCall(error, at_node)
        return None

    def _note(self, note: Note) -> None:
        uri = f"{self.launches}/{avoided_name(note.node)}"
        if note.avoided:
            self.files.write(uri, b"", replace=True)
        else:
            self.files.remove(uri)


class NodePool:
    """Does jobs on threads; a node that does not answer delays only its own jobs."""

    def __init__(
        self,
        ops: ContainerOps,
        told: Result,
        may_call: MayCall = lambda _: True,
        *,
        threads: int = THREADS,
    ) -> None:
        self._ops = ops
        self._may_call = may_call
        self._told = told
        self._most = threads
        self._changed = threading.Condition()
        # By node; an empty queue belongs to a node whose last job is being done.
        self._queues: dict[str, deque[Job]] = {}
        # Nodes with jobs, for which no thread works.
        self._ready: deque[str] = deque()
        self._idle = 0
        self._threads: list[threading.Thread] = []
        self._closing = False

    def post(self, jobs: tuple[Job, ...]) -> None:
        """Queue *jobs*, in order; after `close` drop them. Does not block."""
        with self._changed:
            for job in jobs:
                if self._closing:
                    return
                node = node_of(job)
                if node not in self._queues:
                    self._queues[node] = deque()
                    self._ready.append(node)
                self._queues[node].append(job)
            while self._idle < len(self._ready) and len(self._threads) < self._most:
                name = f"nm-pool-{len(self._threads) + 1}"
                thread = threading.Thread(target=self._run, name=name, daemon=True)
                self._threads.append(thread)
                self._idle += 1
                thread.start()
            self._changed.notify(len(self._ready))

    def close(self) -> None:
        """Drop the queued jobs, without waiting for calls in progress. Idempotent."""
        with self._changed:
            self._closing = True
            self._ready.clear()
            self._changed.notify_all()
        for thread in self._threads:
            thread.join(CLOSE_WITHIN_S / len(self._threads))

    def _run(self) -> None:
        while True:
            with self._changed:
                while not self._ready and not self._closing:
                    self._changed.wait(60.0)
                if self._closing:
                    return
                node = self._ready.popleft()
                job = self._queues[node].popleft()
                self._idle -= 1
            self._told(job, self._ops.do(job, self._may_call))
            with self._changed:
                self._idle += 1
                if self._queues[node]:
                    self._ready.append(node)
                    self._changed.notify()
                else:
                    del self._queues[node]


def node_of(job: Job) -> str:
    """Return the node whose queue *job* belongs to; also for files, to keep their order."""
    match job:
        case Start(record=record) | Forget(record=record):
            return record.node
        case Stop(grant=grant):
            return grant.node
        case Note(node=node):
            return node
