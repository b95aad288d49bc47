"""The staging directory: of many who want a name, one has it."""

import threading

import pytest
from files_in_memory import FilesInMemory
from hypothesis import given
from hypothesis import strategies as st

from tarn.errors import RefusedError
from tarn_plugins.runtime.yarn.staging import YOUNG_S, Layout, Staging

LAYOUT = Layout("hdfs://n/tarn/llama")
NOW = 1_000_000.0


def staging(files: FilesInMemory, **states: bool | None) -> Staging:
    return Staging(files, LAYOUT, states.get, lambda: NOW)


def owned_by(id_: str, at: float = NOW) -> FilesInMemory:
    files = FilesInMemory(lambda: at)
    staging(files).take("llama", id_)
    return files


def test_the_first_has_the_name() -> None:
    """An exclusive file is the whole protocol where nobody was before."""
    files = owned_by("a1")
    assert files.read(LAYOUT.owner) == b"a1"


@pytest.mark.parametrize(("alive", "age_s"), [(True, 0), (True, 9e5), (None, 0), (None, 59)])
def test_a_live_owner_and_one_on_its_way_are_left_alone(alive: bool | None, age_s: float) -> None:
    """An id that YARN does not know yet may be on its way for a minute."""
    files = owned_by("a1", NOW - age_s)
    with pytest.raises(RefusedError) as caught:
        staging(files, a1=alive).take("llama", "a2")
    assert caught.value.code == "TARN-2103"
    assert "a1" in caught.value.found
    assert files.read(LAYOUT.owner) == b"a1"


@pytest.mark.parametrize(("alive", "age_s"), [(False, 0), (None, YOUNG_S)])
def test_a_dead_owner_is_followed_and_its_files_go(alive: bool | None, age_s: float) -> None:
    """The successor starts with an empty directory."""
    files = owned_by("a1", NOW - age_s)
    staging(files).fill({"run": b"x"}, {"api_token": b"x"})
    staging(files, a1=alive).take("llama", "a2")
    assert {uri: c[0] for uri, c in files.content.items()} == {LAYOUT.owner: b"a2"}


def test_removing_is_for_the_owner_only_and_twice_is_once() -> None:
    """An old reference ends nothing of a later cluster."""
    files = owned_by("a1")
    staging(files).remove("a0")
    assert files.read(LAYOUT.owner) == b"a1"
    staging(files).remove("a1")
    staging(files).remove("a1")
    assert files.content == {}


def test_what_is_being_removed_is_not_taken_over() -> None:
    """A successor never loses its files to the removal."""
    files = owned_by("a1")

    def look(operation: str, uri: str) -> None:
        if (operation, uri) == ("remove", LAYOUT.root):
            files.before = lambda _operation, _uri: None
            with pytest.raises(RefusedError):
                staging(files, a1=False).take("llama", "a2")

    files.before = look
    staging(files).remove("a1")
    assert files.content == {}


def test_secrets_are_private_and_the_masters_own_files_are_not() -> None:
    """The nodes fetch the one kind as themselves, the other nobody but the owner reads."""
    files = owned_by("a1")
    entries = staging(files).fill({"run": b"r", "master": b"m"}, {"api_token": b"t"})
    assert [(e.path, e.public) for e in entries] == [("master", True), ("run", True)]
    assert files.content[f"{LAYOUT.private}/api_token"][1] == 0o600


def test_all_files_are_written_at_the_same_time() -> None:
    """Each waits for the disks of data nodes."""
    files, together = owned_by("a1"), threading.Barrier(3, timeout=20)

    def written(operation: str, *_: str) -> None:
        if operation == "write":
            together.wait()

    files.before = written
    staging(files).fill({"run": b"r", "master": b"m"}, {"api_token": b"t"})


@given(st.lists(st.integers(0, 3), min_size=0, max_size=60))
def test_of_four_that_see_a_dead_owner_one_wins_in_any_order(turns: list[int]) -> None:
    """Each works in a thread that waits for its turn before each operation on the files."""
    files = owned_by("dead", NOW - 9e5)
    files.at = lambda: NOW
    race = _Race(4)
    files.before = race.before
    won: list[str] = []

    def run(number: int) -> None:
        race.numbers[threading.get_ident()] = number
        try:
            staging(files, dead=False).take("llama", f"new{number}")
            won.append(f"new{number}")
        except RefusedError:
            pass
        finally:
            race.done(number)

    race.run(run, turns)
    files.before = lambda _operation, _uri: None
    assert len(won) == 1
    assert files.read(LAYOUT.owner).decode() == won[0]
    assert [e.path for e in files.listing(LAYOUT.root)] == ["owner"]


class _Race:
    """Lets one of several threads do one operation at a time, in a given order."""

    def __init__(self, count: int) -> None:
        self.numbers: dict[int, int] = {}
        self._go = [threading.Semaphore(0) for _ in range(count)]
        self._back = threading.Semaphore(0)
        self._over = [False] * count

    def before(self, _operation: str, _uri: str) -> None:
        number = self.numbers.get(threading.get_ident())
        if number is not None:
            self._back.release()
            assert self._go[number].acquire(timeout=10)

    def done(self, number: int) -> None:
        self._over[number] = True
        self._back.release()

    def run(self, work, turns: list[int]) -> None:
        threads = [threading.Thread(target=work, args=(n,)) for n in range(len(self._go))]
        for thread in threads:
            thread.start()
            assert self._back.acquire(timeout=10)
        queue = list(turns)
        while not all(self._over):
            number = queue.pop(0) if queue else self._over.index(False)
            if not self._over[number]:
                self._go[number].release()
                assert self._back.acquire(timeout=10)
        for thread in threads:
            thread.join(10)
