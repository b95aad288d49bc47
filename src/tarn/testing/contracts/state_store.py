"""The contracts of a state store and of a clock."""

import itertools
import json
import math
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tarn.domain import Epoch, SavedState
from tarn.errors import Superseded, TarnError
from tarn.hookspecs import RuntimeFactory
from tarn.interfaces import Clock, StateStore
from tarn.testing.context import master_context
from tarn.testing.strategies import for_any, saved_states
from tarn.testing.wait import within

__all__ = ["ClockContract", "StateStoreContract"]

# the manual size of the first one is 0, which must not become None
_ONE, _TWO, _THREE = (SavedState(desired, manual=desired - 1) for desired in (1, 2, 3))


class StateStoreContract:
    """Set `factory` and `settings`; override `damage` and `age` if states are not files.

    Files are expected as ``state-*.json`` in the cluster's directory, with a key ``schema``.
    """

    factory: RuntimeFactory
    settings: Mapping[str, Any] = {}

    def claim(self, tmp_path: Path) -> Epoch:
        """Return the epoch of a new master of the cluster, as the runtime claims it."""
        context = master_context(tmp_path)
        made = self.factory.settings(**self.settings)
        return self.factory.epoch(made, context.directory, context.environ)

    def make(self, tmp_path: Path, epoch: Epoch) -> StateStore:
        """Return the store of the master *epoch*, made by its factory."""
        made = self.factory.settings(**self.settings)
        context = master_context(tmp_path, epoch=epoch)
        return self.factory.state_store(made, context)

    def damage(self, tmp_path: Path, newest: Path | None) -> None:
        """Make the last saved state unreadable; *newest* is its file, if there is one."""
        assert newest is not None, "override damage: states are not state-*.json files"
        newest.write_bytes(newest.read_bytes()[: newest.stat().st_size // 2])

    def age(self, tmp_path: Path, newest: Path | None) -> None:
        """Make the last saved state look as if a later TARN had written it."""
        assert newest is not None, "override age: states are not state-*.json files"
        content = json.loads(newest.read_text(encoding="utf-8"))
        newest.write_text(json.dumps({**content, "schema": 1_000}), encoding="utf-8")

    def test_a_new_cluster_has_no_state(self, tmp_path: Path) -> None:
        """A missing state causes no alert."""
        assert self._store(tmp_path).load() == (None, ())

    @for_any(examples=40, state=saved_states)
    def test_gives_back_what_was_saved(self, tmp_path: Path, state: SavedState) -> None:
        """This master and the next one get every field, including text beyond ASCII."""
        epoch = self.claim(tmp_path)
        store = self.make(tmp_path, epoch)
        store.save(state, epoch)
        assert store.load() == (state, ())
        assert self._store(tmp_path).load() == (state, ())

    def test_the_newest_wins(self, tmp_path: Path) -> None:
        """After many saves the last state counts."""
        epoch = self.claim(tmp_path)
        store = self.make(tmp_path, epoch)
        for state in (_ONE, _TWO, _THREE, _ONE, _TWO):
            store.save(state, epoch)
            assert store.load() == (state, ())

    def test_a_lower_epoch_is_superseded(self, tmp_path: Path) -> None:
        """A master that wakes up late does not overwrite its successor's state."""
        first = self.claim(tmp_path)
        old = self.make(tmp_path, first)
        old.save(_ONE, first)
        second = self.claim(tmp_path)
        assert second > first
        new = self.make(tmp_path, second)
        new.save(_TWO, second)
        with pytest.raises(Superseded) as caught:
            old.save(_THREE, first)
        assert (caught.value.mine, caught.value.theirs) == (str(first), str(second))
        assert new.load() == (_TWO, ())

    def test_the_successor_reads_its_predecessors_state(self, tmp_path: Path) -> None:
        """A restarted master continues where the last one stopped, and saves its own state."""
        first = self.claim(tmp_path)
        self.make(tmp_path, first).save(_ONE, first)
        second = self.claim(tmp_path)
        successor = self.make(tmp_path, second)
        assert successor.load() == (_ONE, ())
        successor.save(_TWO, second)
        assert successor.load() == (_TWO, ())

    def test_a_damaged_newest_state_leaves_the_one_before_it(self, tmp_path: Path) -> None:
        """Two states are kept; the older one comes with an alert, and saving still works."""
        epoch = self.claim(tmp_path)
        store = self.make(tmp_path, epoch)
        for state in (_THREE, _ONE):
            store.save(state, epoch)
        self.damage(tmp_path, self._save(tmp_path, store, _TWO, epoch))
        found, alerts = self._store(tmp_path).load()
        assert found == _ONE
        assert alerts
        assert all(alert.strip() for alert in alerts)
        third = self.claim(tmp_path)
        repaired = self.make(tmp_path, third)
        repaired.save(_THREE, third)
        assert repaired.load()[0] == _THREE

    def test_only_damaged_states_are_no_state_and_an_alert(self, tmp_path: Path) -> None:
        """The next master rebuilds its state from the facts, and an alert says why."""
        epoch = self.claim(tmp_path)
        store = self.make(tmp_path, epoch)
        self.damage(tmp_path, self._save(tmp_path, store, _ONE, epoch))
        state, alerts = self._store(tmp_path).load()
        assert state is None
        assert alerts

    def test_a_newer_schema_is_refused_in_words(self, tmp_path: Path) -> None:
        """A state of a later TARN is not guessed at, and an older state does not replace it."""
        epoch = self.claim(tmp_path)
        store = self.make(tmp_path, epoch)
        store.save(_ONE, epoch)
        self.age(tmp_path, self._save(tmp_path, store, _TWO, epoch))
        with pytest.raises(TarnError) as caught:
            self._store(tmp_path).load()
        assert caught.value.code == "TARN-1007"

    def test_what_is_kept_is_given_back_to_this_master_and_to_the_next(
        self, tmp_path: Path
    ) -> None:
        """Each name has its own newest data, byte for byte; states are not affected."""
        epoch = self.claim(tmp_path)
        store = self.make(tmp_path, epoch)
        assert store.kept("history") is None
        store.save(_ONE, epoch)
        for data in (b"first", bytes(range(256)) * 300):
            store.keep("history", data, epoch)
            assert store.kept("history") == data
        store.keep("other", b"", epoch)
        after = self._store(tmp_path)
        assert (after.kept("history"), after.kept("other")) == (bytes(range(256)) * 300, b"")
        assert (after.kept("his"), after.load()) == (None, (_ONE, ()))

    def test_an_old_master_keeps_nothing_over_its_successors(self, tmp_path: Path) -> None:
        """It gets `Superseded`."""
        first = self.claim(tmp_path)
        old = self.make(tmp_path, first)
        old.keep("history", b"old", first)
        second = self.claim(tmp_path)
        new = self.make(tmp_path, second)
        assert new.kept("history") == b"old"
        new.keep("history", b"new", second)
        with pytest.raises(Superseded):
            old.keep("history", b"older", first)
        assert new.kept("history") == b"new"
        assert self._store(tmp_path).kept("history") == b"new"

    def _store(self, tmp_path: Path) -> StateStore:
        return self.make(tmp_path, self.claim(tmp_path))

    def _save(
        self, tmp_path: Path, store: StateStore, state: SavedState, epoch: Epoch
    ) -> Path | None:
        """Save *state*, and return its file."""
        before = self._files(tmp_path)
        store.save(state, epoch)
        after = self._files(tmp_path)
        changed = [path for path, content in after.items() if before.get(path) != content]
        return changed[0] if changed else None

    def _files(self, tmp_path: Path) -> dict[Path, bytes]:
        found = master_context(tmp_path).directory.glob("state-*.json")
        return {path: path.read_bytes() for path in found}


_WAIT_S = 0.02
_LEAST_S, _MOST_S = 0.5 * _WAIT_S, 100 * _WAIT_S
_YEAR_2020, _YEAR_2100 = 1_577_836_800.0, 4_102_444_800.0


class ClockContract:
    """Override `make`; also `pass_time` if time does not pass by itself."""

    def make(self) -> Clock:
        """Return the clock under test."""
        raise NotImplementedError

    def pass_time(self, clock: Clock, by_s: float) -> None:
        """Let about *by_s* seconds pass (up to a hundred times more on a busy machine)."""
        threading.Event().wait(by_s)

    def test_is_a_clock(self) -> None:
        """It has both times."""
        assert isinstance(self.make(), Clock)

    def test_monotonic_time_never_goes_back(self) -> None:
        """A thousand readings are in order."""
        clock = self.make()
        read = [clock.now_s() for _ in range(1000)]
        assert all(earlier <= later for earlier, later in itertools.pairwise(read))

    def test_differences_are_seconds(self) -> None:
        """The passing time is measured in seconds."""
        clock = self.make()
        before_s = clock.now_s()
        self.pass_time(clock, _WAIT_S)
        passed_s = clock.now_s() - before_s
        assert _LEAST_S <= passed_s <= _MOST_S, passed_s

    def test_wall_time_passes_like_the_monotonic_one(self) -> None:
        """Wall time is measured in seconds, too."""
        clock = self.make()
        before = clock.at()
        self.pass_time(clock, _WAIT_S)
        passed_s = clock.at() - before
        assert _LEAST_S <= passed_s <= _MOST_S, passed_s

    def test_wall_time_is_unix_seconds(self) -> None:
        """It is between the years 2020 and 2100: neither milliseconds nor the time since boot."""
        assert _YEAR_2020 < self.make().at() < _YEAR_2100

    def test_both_times_are_finite_floats(self) -> None:
        """Both are finite, and of the type float."""
        clock = self.make()
        for read in (clock.now_s(), clock.at()):
            assert isinstance(read, float)
            assert math.isfinite(read)

    def test_any_thread_may_ask(self) -> None:
        """A thread that asks later reads no earlier time."""
        clock = self.make()
        before_s = clock.now_s()
        assert within(5.0, clock.now_s) >= before_s
