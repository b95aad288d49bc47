"""Write events to the master's log and to their file, and announce them to plugins.

Both have their own thread and a bounded queue, so that a slow disk or plugin delays no tick.
"""

import contextlib
import functools
import json
import logging
import os
import queue
import re
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from tarn.domain import Event
from tarn.domain.events import EVENTS_FILE, event_fields, severity_of
from tarn.domain.fleet import Fleet
from tarn.plugins import Plugins

__all__ = ["EVENTS_LOG", "Announcer", "EventFile", "Journal", "event_file_in"]

log = logging.getLogger(__name__)
EVENTS_LOG = "tarn.events"
"""Name of the logger of events."""
QUEUE = 2000
# Most bytes of a file of events; a larger one is renamed to ``<name>.1``, replacing an older one.
LARGEST = 2 * 1024 * 1024
_LEVELS = {"info": logging.INFO, "warning": logging.WARNING, "alert": logging.ERROR}
_INSTANCE = re.compile(r"-\d{4,}")


class EventFile:
    """A file with an event on each line; two generations are kept. One thread at a time.

    Args:
        path: The file, in an existing folder.
        largest: Bytes beyond which it is renamed.
    """

    def __init__(self, path: Path, largest: int = LARGEST) -> None:
        self._path = path
        self._largest = largest

    def append(self, line: str) -> None:
        """Append *line*; raise ``OSError`` if that fails."""
        data = (line + "\n").encode()
        with contextlib.suppress(FileNotFoundError):
            if self._path.stat().st_size + len(data) > self._largest:
                self._path.replace(self._path.with_name(f"{self._path.name}.1"))
        descriptor = os.open(
            self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600
        )
        try:
            os.write(descriptor, data)
        finally:
            os.close(descriptor)


def event_file_in(directory: Path) -> EventFile | None:
    """Return the file of events next to the master's log in *directory*.

    None: the runtime keeps the log itself, so there is no folder for it.
    """
    path = directory / EVENTS_FILE
    return EventFile(path) if path.parent.is_dir() else None


class Journal:
    """Owns the journal thread. The control thread calls `tell`, which never blocks.

    Args:
        cluster: The cluster's name.
        file: The file of events; None: there is none.
    """

    def __init__(self, cluster: str, file: EventFile | None = None) -> None:
        self._cluster = cluster
        self._file = file
        self.trouble = ""
        """Why the newest event is not in the file; empty when it is."""
        self._queue: queue.Queue[Event | None] = queue.Queue(QUEUE)
        self.lost = 0
        """Number of events that were not written, because the disk was too slow."""
        self._thread = threading.Thread(target=self._run, name="journal", daemon=True)
        self._thread.start()

    def tell(self, before: tuple[Event, ...], after: tuple[Event, ...]) -> None:
        """Write the events of *after* that are new, or were counted again, since *before*."""
        if after is before:
            return
        known = {id(event) for event in before}
        for event in after:
            if id(event) not in known:
                try:
                    self._queue.put_nowait(event)
                except queue.Full:
                    self.lost += 1

    def close(self, within_s: float = 0.1) -> None:
        """Write the queued events for at most *within_s* seconds, and end the thread."""
        try:
            self._queue.put(None, timeout=within_s)
        except queue.Full:
            return
        self._thread.join(within_s)

    def _run(self) -> None:
        while (told := self._queue.get()) is not None:
            try:
                self._write(told)
            except Exception:
                log.exception("an event was not written")

    def _write(self, event: Event) -> None:
        fields = event_fields(event, self._cluster)
        about: dict[str, object] = {"event": fields, "decision": event.cause.decision}
        if event.cause.asker is not None:
            about["request"] = event.cause.asker.request
        if _INSTANCE.fullmatch(event.subject.removeprefix(self._cluster)):
            about["instance"] = event.subject
        times = f" (x{event.count})" if event.count > 1 else ""
        words = "%s %s: %s%s", event.code, event.subject, event.message, times
        level = _LEVELS[severity_of(event.code)]
        logging.getLogger(EVENTS_LOG).log(level, *words, extra=about)
        if self._file is not None:
            self._keep(self._file, json.dumps(fields))

    def _keep(self, file: EventFile, line: str) -> None:
        """Append *line* to *file*; warn once until it works again."""
        try:
            file.append(line)
        except OSError as error:
            if not self.trouble:
                log.warning("events are not kept in their file: %s", error)
            self.trouble = str(error)
        else:
            self.trouble = ""


T = TypeVar("T")
ANNOUNCEMENTS = 1000


class Announcer:
    """Owns the announcer thread and its bounded queue."""

    def __init__(self, plugins: Plugins) -> None:
        self._plugins = plugins
        self._queue: queue.Queue[Callable[[], None] | None] = queue.Queue(ANNOUNCEMENTS)
        self.lost = 0
        """Number of announcements that were dropped, because plugins were too slow."""
        self._thread = threading.Thread(target=self._run, name="announcer", daemon=True)
        self._thread.start()

    def tell(self, before: Fleet, after: Fleet) -> None:
        """Announce what is new in *after*: events, decisions, then instances; never blocks."""
        for event in _new(before.events, after.events):
            self._put(functools.partial(self._plugins.event, event))
        for decision in _new(before.decisions, after.decisions):
            self._put(functools.partial(self._plugins.decision, decision))
        if after.instances is before.instances:
            return
        old = {i.id: i for i in before.instances}
        for instance in (*after.instances, *_new(before.ended, after.ended)):
            was = old.get(instance.id)
            if was is None or was.state is not instance.state:
                self._put(functools.partial(self._plugins.instance_changed, was, instance))

    def close(self) -> None:
        """Wait at most 100 ms for the queued announcements, and end the thread."""
        try:
            self._queue.put(None, timeout=0.1)
        except queue.Full:
            return
        self._thread.join(0.1)

    def _put(self, announce: Callable[[], None]) -> None:
        try:
            self._queue.put_nowait(announce)
        except queue.Full:
            self.lost += 1

    def _run(self) -> None:
        while (announce := self._queue.get()) is not None:
            try:
                announce()
            except Exception:
                log.exception("a plugin raised while it handled an event")


def _new(before: tuple[T, ...], after: tuple[T, ...]) -> list[T]:
    """Return the items that are only in *after*."""
    if after is before:
        return []
    # Values are never changed, so the same object is the same item.
    known = {id(item) for item in before}
    return [item for item in after if id(item) not in known]
