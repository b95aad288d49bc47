import io
import sys
import threading
from types import SimpleNamespace

import pytest
from fake_fleet import URL, FakeClock, FakeFleet, instance, status

from tarn.cluster import Cluster, Goal
from tarn.cluster.operate import watching
from tarn.cluster.operate.watching import Cell, LinePrinter, Terminal, Watch, screen
from tarn.errors import ConfigError, NotFoundError, TimedOutError, UnreachableError
from tarn.follow import Message


class Paper:
    """A screen that keeps what was drawn."""

    def __init__(self) -> None:
        self.drawn: list[str] = []
        self.closed = False

    def show(self, status, api) -> None:
        self.drawn.append(f"{status['state']} {status['ready']} {api}")

    def say(self, name, text) -> None:
        self.drawn.append(f"{name}: {text}")

    def close(self) -> None:
        self.closed = True


class News:
    """Comes when somebody waits: each wait takes a second of the fake clock."""

    def __init__(self, clock: FakeClock) -> None:
        self.clock = clock

    def clear(self) -> None:
        """Nothing is kept."""

    def wait(self, seconds: float) -> None:
        self.clock.time_s += seconds


def watch(*looks):
    """A watch that sees *looks*, the last one for ever."""
    clock, left = FakeClock(), list(looks)

    def look():
        seen = left.pop(0) if len(left) > 1 else left[0]
        if isinstance(seen, Exception):
            raise seen
        return seen

    return Watch(look, lambda: URL, clock, News(clock))


COLD = status("starting", (instance(1, "starting", reason="loads"),))


def test_draws_until_the_goal_is_reached():
    """What it is reached with is drawn, too."""
    paper = Paper()
    watch(COLD, COLD, status(), status()).run(paper, Goal.of("ready=2"), None)
    assert paper.drawn == [f"starting 0 {URL}", f"starting 0 {URL}", f"ready 2 {URL}"]


def test_ends_at_the_time_limit():
    """An error where something was waited for, else the end that was asked for."""
    with pytest.raises(TimedOutError, match="3 ready instances not reached in 5 s"):
        watch(status()).run(Paper(), Goal.of("ready=3"), 5.0)
    paper = Paper()
    watch(status()).run(paper, None, 2.0)
    assert len(paper.drawn) == 3


def test_ends_with_the_cluster():
    """One that was there says that it is gone; one that never was is an error."""
    paper = Paper()
    watch(status("stopping"), NotFoundError("it does not run any more")).run(paper, None, None)
    assert paper.drawn[-1] == "demo: it does not run any more"
    with pytest.raises(NotFoundError):
        watch(NotFoundError("no such cluster")).run(Paper(), None, None)


def test_a_master_that_does_not_answer_is_watched_on():
    """It may be restarting."""
    paper = Paper()
    looks = (status(), UnreachableError("refused"), status("ready", ready=3))
    watch(*looks).run(paper, Goal.of(3), None)
    assert paper.drawn == [f"ready 2 {URL}", "demo: refused", f"ready 3 {URL}"]


def test_a_terminal_rewrites_its_own_lines_and_no_others():
    """Up by what was drawn, then over it; cut to the width."""
    out = io.StringIO()
    terminal = Terminal(out, lambda: (40, 24))
    terminal.show(COLD, None)
    first = out.getvalue()
    assert not first.startswith("\x1b[")
    assert first.count("\n") == 7
    terminal.show(status(), None)
    second = out.getvalue().removeprefix(first)
    assert second.startswith("\x1b[7F")
    assert second.endswith("\x1b[J")
    lines = second.removeprefix("\x1b[7F").replace("\x1b[K", "").splitlines()
    assert max(map(len, lines)) <= 39
    terminal.close()
    terminal.say("demo", "is gone")
    assert out.getvalue().endswith("\x1b[Jdemo: is gone\x1b[K\n\x1b[J")


def test_a_terminal_never_draws_more_than_fits():
    """What scrolled away could not be rewritten."""
    out = io.StringIO()
    many = status(instances=tuple(instance(n) for n in range(1, 100)))
    Terminal(out, lambda: (80, 10)).show(many, None)
    assert out.getvalue().count("\n") == 9
    assert "lines more" in out.getvalue()


def test_without_a_terminal_only_changes_are_printed():
    """A log wants lines, and none twice."""
    out = io.StringIO()
    lines = LinePrinter(out)
    for shown in (COLD, COLD, status()):
        lines.show(shown, None)
    lines.say("demo", "is gone")
    lines.close()
    assert out.getvalue().splitlines() == [
        "demo is starting: 0 of 1 ready; demo-0001 starting",
        "demo is ready: 2 of 2 ready; demo-0001 ready, demo-0002 ready",
        "demo: is gone",
    ]


class Display:
    """What IPython.display has of use, kept."""

    def __init__(self) -> None:
        self.shown: list[str] = []

    def HTML(self, html: str) -> str:  # noqa: N802 (IPython's name)
        return html

    def display(self, html: str, *, display_id: bool) -> "Display":
        assert display_id
        self.shown.append(html)
        return self

    def update(self, html: str) -> None:
        self.shown.append(f"update {html}")


def test_a_cell_is_displayed_once_and_then_updated():
    """One output that changes, not a hundred."""
    display = Display()
    cell = Cell(display)
    cell.show(COLD, URL)
    cell.show(status(), URL)
    cell.say("demo", "is gone")
    cell.close()
    first, *others = display.shown
    assert "starting" in first
    assert [text.startswith("update <div") for text in others] == [True, True]


def test_a_screen_is_chosen_by_where_the_process_runs(monkeypatch):
    """A kernel's cell, a terminal (IPython's own too), or lines; a given stream wins."""
    monkeypatch.delitem(sys.modules, "IPython", raising=False)
    assert isinstance(screen(io.StringIO()), LinePrinter)
    tty = io.StringIO()
    tty.isatty = lambda: True
    assert isinstance(screen(tty), Terminal)
    in_terminal = SimpleNamespace(get_ipython=SimpleNamespace)
    monkeypatch.setitem(sys.modules, "IPython", in_terminal)
    assert isinstance(screen(), LinePrinter)
    kernel = SimpleNamespace(get_ipython=lambda: SimpleNamespace(kernel=1), display=Display())
    monkeypatch.setitem(sys.modules, "IPython", kernel)
    monkeypatch.setitem(sys.modules, "IPython.display", kernel.display)
    assert isinstance(screen(), Cell)


@pytest.mark.parametrize(
    ("text", "goal"),
    [(None, Goal()), (3, Goal(3)), ("ready=3", Goal(3)), ("state=stopped", Goal(state="stopped"))],
)
def test_a_goal_is_a_number_or_a_state(text, goal):
    """As `tarn wait --for` takes it."""
    assert Goal.of(text) == goal


@pytest.mark.parametrize("text", ["ready", "ready=", "ready=x", "ready=-1", "state=", "size=3", ""])
def test_anything_else_is_no_goal(text):
    """Said with what would be right."""
    with pytest.raises(ConfigError, match="Expected ready=N, or state=S"):
        Goal.of(text)


def test_a_state_that_is_nearly_right_is_suggested():
    """A slip of the finger."""
    with pytest.raises(ConfigError, match="Did you mean 'stopped'"):
        Goal.of("state=stoped")


@pytest.fixture
def cluster(fleet: FakeFleet) -> Cluster:
    """A cluster that runs."""
    plain = {"name": "demo", "models": "models", "runtime": {"use": "fake"}}
    return Cluster(plain, environment=fleet.environment).up()


def test_an_event_makes_the_next_look_come_at_once(cluster, fleet, monkeypatch):
    """The view follows the stream; it does not only look every so often."""
    monkeypatch.setattr(watching, "LOOK_EVERY_S", 30.0)
    fleet.statuses = [COLD, status()]
    fleet.stream = [Message("a", "event", {"code": "TARN-1102"})]
    paper = Paper()
    cluster.watch("ready=2", "60s", on=paper)
    assert paper.drawn[-1] == f"ready 2 {URL}"
    assert paper.closed
    assert ("stream", "events", None) in fleet.asked
    assert not [t for t in threading.enumerate() if t.name == "watch-events"]


def test_an_interrupt_ends_the_view_and_nothing_else(cluster, fleet):
    """In a notebook it is the normal end, so no traceback is shown."""

    class Interrupted(Paper):
        def show(self, status, api) -> None:
            raise KeyboardInterrupt

    paper = Interrupted()
    cluster.watch(on=paper)
    assert paper.closed
    assert "down" not in fleet.verbs()
