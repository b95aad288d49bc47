"""Calls to nodes and files, on a few threads: those for one node one after another, in order."""

import logging
import threading
from collections import deque
from collections.abc import Callable

import attrs

from tarn.errors import LaunchError, TarnError
from tarn_plugins.runtime.yarn.master.records import avoided_name, file_name
from tarn_plugins.runtime.yarn.master.slots import Forget, Job, Note, Start, Stop
from tarn_plugins.runtime.yarn.messages import Files, Launcher, NodeManagers

__all__ = ["ContainerOps", "FailedCall", "MayCall", "NodePool", "Result", "node_of"]

log = logging.getLogger(__name__)

THREADS = 8
"""Each stays for good once it called Java; so many nodes may be dead before a live one waits."""
CLOSE_WITHIN_S = 0.2


@attrs.frozen
class FailedCall:
    """A job that came to nothing."""

    error: Exception
    at_node: bool
    """The NodeManager itself refused, or did not answer."""


Result = Callable[[Job, FailedCall | None], None]
"""Told how each job ended, on the thread that did it."""
MayCall = Callable[[Start], bool]
"""Asked whether what was prepared may start, on the thread that would tell its node."""


@attrs.frozen
class ContainerOps:
    """What jobs are done with. Every call behind it has a deadline of its own."""

    nodes: NodeManagers
    files: Files
    launcher: Launcher
    launches: str
    """URI of the directory with the launch files."""

    def do(self, job: Job, may_call: MayCall = lambda _: True) -> FailedCall | None:
        """Do one job; blocks. What goes wrong is returned, so that no job is ever lost.

        Args:
            job: What is to be done.
            may_call: Asked before a node is told to start something: to prepare it may have taken
                minutes, and meanwhile it was given up, or the master leaves.
        """
        at_node = False
        try:
            match job:
                case Start(grant=grant, record=record, launch=launch):
                    prepared = self.launcher.prepare(record, launch)
                    if not may_call(job):
                        return FailedCall(_given_up(), at_node)
                    at_node = True
                    self.nodes.start(grant, prepared)
                case Stop(grant=grant):
                    at_node = True
                    self.nodes.stop(grant)
                case Forget(record=record, diagnostics=diagnostics):
                    self.launcher.heard(diagnostics)
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
    """Does jobs; a node that does not answer delays only what is for it."""

    def __init__(
        self,
        hands: ContainerOps,
        told: Result,
        may_call: MayCall = lambda _: True,
        *,
        threads: int = THREADS,
    ) -> None:
        self._hands = hands
        self._may_call = may_call
        self._told = told
        self._most = threads
        self._changed = threading.Condition()
        self._queues: dict[str, deque[Job]] = {}
        """By node; an empty queue is one whose last job is in work."""
        self._ready: deque[str] = deque()
        """Nodes with jobs that no thread is at work for."""
        self._idle = 0
        self._threads: list[threading.Thread] = []
        self._closing = False

    def post(self, jobs: tuple[Job, ...]) -> None:
        """Take *jobs* over, in order; returns at once. After `close` they are dropped."""
        with self._changed:
            for job in jobs:
                if self._closing:
                    return
                node = node_of(job)
                if node not in self._queues:
                    self._queues[node] = deque()
                    self._ready.append(node)
                self._queues[node].append(job)
            self._hire()
            self._changed.notify(len(self._ready))

    def close(self) -> None:
        """Drop what has not begun; a call in work is left to itself. Idempotent."""
        with self._changed:
            self._closing = True
            self._ready.clear()
            self._changed.notify_all()
        for thread in self._threads:
            thread.join(CLOSE_WITHIN_S / len(self._threads))

    def _hire(self) -> None:
        while self._idle < len(self._ready) and len(self._threads) < self._most:
            name = f"nm-pool-{len(self._threads) + 1}"
            thread = threading.Thread(target=self._run, name=name, daemon=True)
            self._threads.append(thread)
            self._idle += 1
            thread.start()

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
            self._told(job, self._hands.do(job, self._may_call))
            with self._changed:
                self._idle += 1
                if self._queues[node]:
                    self._ready.append(node)
                    self._changed.notify()
                else:
                    del self._queues[node]


def _given_up() -> LaunchError:
    return LaunchError("yarn", "it was cancelled before its node was contacted", retry_after_s=1.0)


def node_of(job: Job) -> str:
    """Return the key of *job*: its node, also for files, so that a removal follows the writing."""
    match job:
        case Start(record=record) | Forget(record=record):
            return record.node
        case Stop(grant=grant):
            return grant.node
        case Note(node=node):
            return node
