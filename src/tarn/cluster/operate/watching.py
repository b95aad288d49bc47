"""A live view of a cluster, redrawn at each event and each second."""

import contextlib
import importlib
import shutil
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Protocol, TextIO

from tarn.cluster.environment import ClusterEnvironment
from tarn.cluster.explain import causes
from tarn.cluster.link import Link
from tarn.cluster.operate.waiting import Goal
from tarn.cluster.read import card
from tarn.cluster.read.events import follow_events
from tarn.cluster.read.masterless import is_over
from tarn.cluster.read.table import cluster_table
from tarn.errors import NotFoundError, TarnError, TimedOutError, UnreachableError
from tarn.interfaces import Clock
from tarn.plain import underlying, visible

__all__ = ["Cell", "LinePrinter", "Screen", "Terminal", "Watch", "news_of", "screen"]

Status = Mapping[str, Any]

# Ages and request counts change without an event.
LOOK_EVERY_S = 1.0


class Screen(Protocol):
    """Where a live view is shown."""

    def show(self, status: Status, api: str | None) -> None:
        """Show *status* in place of what was shown before."""
        ...

    def say(self, name: str, text: str) -> None:
        """Show *text* while no status is known."""
        ...

    def close(self) -> None:
        """Stop updating; what was shown last stays."""
        ...


class Watch:
    """Shows one cluster until a goal is reached.

    Args:
        look: Returns the status.
        url: Returns the address of the master's API.
        clock: For the time limit.
        news: Set when an event happened; the status is then read at once.
    """

    def __init__(
        self,
        look: Callable[[], Status],
        url: Callable[[], str | None],
        clock: Clock,
        news: threading.Event,
    ) -> None:
        self._look, self._url, self._clock, self._news = look, url, clock, news
        self._name = ""

    def run(self, screen: Screen, goal: Goal | None, limit_s: float | None) -> None:
        """Draw on *screen* until *goal* is reached or the cluster is gone.

        Raises:
            TimedOutError: *limit_s* seconds passed; without a goal that is not an error.
            NotFoundError: The cluster did not exist when the view began.
        """
        begun_s = self._clock.now_s()
        while True:
            try:
                if self._drawn(screen, goal):
                    return
            except NotFoundError as error:
                if not self._name:
                    raise
                screen.say(self._name, str(error))
                return
            if limit_s is not None and self._clock.now_s() - begun_s >= limit_s:
                if goal is None:
                    return
                raise TimedOutError(f"{goal} not reached in {limit_s:g} s", where=self._name)
            self._news.wait(LOOK_EVERY_S)
            self._news.clear()  # before the status is read: a later event needs another look

    def _drawn(self, screen: Screen, goal: Goal | None) -> bool:
        """Draw once; return True when the goal is reached or the cluster is over."""
        try:
            status = self._look()
        except (UnreachableError, TimedOutError) as error:
            screen.say(self._name or "the cluster", str(error))
            return False
        self._name = status["name"]
        screen.show(status, self._url())
        return is_over(status) or (goal is not None and goal.reached(status))


@contextlib.contextmanager
def news_of(link: Link, environment: ClusterEnvironment) -> Iterator[threading.Event]:
    """Yield a `threading.Event` that is set whenever the cluster reports an event.

    It uses *link* in a second thread, and closes it. Where events cannot be followed it is
    never set; the view then relies on its regular looks, which show the error.
    """
    news, stop = threading.Event(), threading.Event()

    def follow() -> None:
        with contextlib.suppress(TarnError):
            for _message in follow_events(link, environment, stop):
                news.set()

    follower = threading.Thread(target=follow, name="watch-events", daemon=True)
    follower.start()
    try:
        yield news
    finally:
        stop.set()
        follower.join(2.0)
        link.close()


class Terminal:
    """Rewrites its lines in place."""

    def __init__(
        self, stream: TextIO, size: Callable[[], tuple[int, int]] = shutil.get_terminal_size
    ) -> None:
        self._stream, self._size = underlying(stream), size
        self._drawn = 0

    def show(self, status: Status, api: str | None) -> None:
        """Draw the table and the causes, cut to the terminal's size."""
        lines = cluster_table(status, api).splitlines()
        found = [str(cause) for cause in causes(status)]
        self._draw([*lines, "", *found] if found else lines)

    def say(self, name: str, text: str) -> None:
        """Draw one sentence."""
        self._draw([f"{name}: {text}"])

    def close(self) -> None:
        """Leave the cursor below what was drawn."""
        self._drawn = 0

    def _draw(self, lines: list[str]) -> None:
        width, height = self._size()
        if len(lines) > height - 1:
            left = len(lines) - (height - 2)
            lines = [*lines[: height - 2], f"… and {left} lines more"]
        up = f"\x1b[{self._drawn}F" if self._drawn else ""
        text = "".join(f"{visible(line)[: width - 1]}\x1b[K\n" for line in lines)
        self._stream.write(f"{up}{text}\x1b[J")
        self._stream.flush()
        self._drawn = len(lines)


class LinePrinter:
    """Prints a line at each change, for output that cannot be rewritten."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._said = ""

    def show(self, status: Status, api: str | None) -> None:
        """Print state, sizes and the states of the instances."""
        states = ", ".join(f"{item['id']} {item['state']}" for item in status["instances"])
        ratio = f"{status['ready']} of {status['desired']} ready"
        self._print(f"{status['name']} is {status['state']}: {ratio}; {states or 'no instance'}")

    def say(self, name: str, text: str) -> None:
        """Print one sentence."""
        self._print(f"{name}: {text}")

    def close(self) -> None:
        """Do nothing."""

    def _print(self, line: str) -> None:
        if line != self._said:
            self._said = line
            self._stream.write(f"{line}\n")
            self._stream.flush()


class Cell:
    """Updates the output of a notebook's cell.

    Args:
        display: The module ``IPython.display``.
    """

    def __init__(self, display: Any) -> None:
        self._display = display
        self._handle: Any = None

    def show(self, status: Status, api: str | None) -> None:
        """Draw the card."""
        self._draw(card.cluster(status, api))

    def say(self, name: str, text: str) -> None:
        """Draw a card with one sentence."""
        self._draw(card.message(name, text))

    def close(self) -> None:
        """Do nothing: the output stays."""

    def _draw(self, html: str) -> None:
        made = self._display.HTML(html)
        if self._handle is None:
            self._handle = self._display.display(made, display_id=True)
        else:
            self._handle.update(made)


def screen(stream: TextIO | None = None) -> Screen:
    """Return where this process shows a live view: a cell, a terminal, or lines of text."""
    ipython = sys.modules.get("IPython")  # imported already, if this process is a notebook's
    shell = None if ipython is None else ipython.get_ipython()
    if stream is None and shell is not None and hasattr(shell, "kernel"):
        return Cell(importlib.import_module("IPython.display"))
    stream = stream or sys.stdout
    return Terminal(stream) if stream.isatty() else LinePrinter(stream)
