"""Keep what happened: each event is a line of the master's log, and of a file next to it."""

import contextlib
import json
import logging
import os
import queue
import re
import threading
from pathlib import Path

from tarn.domain import Event
from tarn.domain.events import EVENTS_FILE, event_fields, severity_of

__all__ = ["EVENTS_LOG", "EventFile", "Journal", "beside"]

log = logging.getLogger(__name__)
EVENTS_LOG = "tarn.events"
"""Name of the logger of events."""
QUEUE = 2000
LARGEST = 2 * 1024 * 1024
"""Bytes of a file of events; beyond them it becomes ``<name>.1``, in place of an older one."""
_LEVELS = {"info": logging.INFO, "warning": logging.WARNING, "alert": logging.ERROR}
_INSTANCE = re.compile(r"-\d{4,}")


class EventFile:
    """A file with an event on each line; two generations of it are kept. One thread at a time.

    Args:
        path: Where it lies; its folder exists.
        largest: How many bytes it may have before it is turned over.
    """

    def __init__(self, path: Path, largest: int = LARGEST) -> None:
        self._path = path
        self._largest = largest

    def append(self, line: str) -> None:
        """Write *line*; an ``OSError`` says that it cannot be written."""
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


def beside(directory: Path) -> EventFile | None:
    """Return the file of events next to the log of the master in *directory*.

    None where the runtime keeps the log itself: there is no folder for it.
    """
    path = directory / EVENTS_FILE
    return EventFile(path) if path.parent.is_dir() else None


class Journal:
    """Owns the journal thread. `tell` is for the control thread, and never blocks.

    Args:
        cluster: The cluster's name.
        file: Where events are kept next to the log; None: nowhere.
    """

    def __init__(self, cluster: str, file: EventFile | None = None) -> None:
        self._cluster = cluster
        self._file = file
        self.trouble = ""
        """Why the newest event is not in the file; empty when it is."""
        self._queue: queue.Queue[Event | None] = queue.Queue(QUEUE)
        self.lost = 0
        """Events that were not written, because a disk was too slow."""
        self._thread = threading.Thread(target=self._run, name="journal", daemon=True)
        self._thread.start()

    def tell(self, before: tuple[Event, ...], after: tuple[Event, ...]) -> None:
        """Write what stands in *after* and not in *before*: new ones, and counted ones again."""
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
        """Write what waits, at most *within_s* long, and end the thread."""
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
        """Append *line*; a disk that takes nothing is said once, until it takes something again."""
        try:
            file.append(line)
        except OSError as error:
            if not self.trouble:
                log.warning("events are not kept in their file: %s", error)
            self.trouble = str(error)
        else:
            self.trouble = ""
