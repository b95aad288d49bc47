"""The contract of a discovery: it publishes the view, and never less by mistake."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import attrs
import pytest

from tarn.domain import Applied, DiscoveryView, Endpoint, Epoch, Member
from tarn.errors import DiscoveryError, Superseded
from tarn.hookspecs import Factory
from tarn.interfaces import Discovery
from tarn.testing.context import master_context
from tarn.testing.strategies import discovery_views, for_any
from tarn.testing.wait import within

__all__ = ["DiscoveryContract"]

_SYNC_WITHIN_S = 30.0
_EPOCH = Epoch(1_700_000_000_000, 2)


class DiscoveryContract:
    """Set `factory` and `settings`; override `published` and `break_down`."""

    factory: Factory[Discovery]
    settings: Mapping[str, Any] = {}
    answer_within_s: float = 1.0
    """Seconds that `applied` may take on a busy machine, and `close` on any."""

    def make(self, tmp_path: Path, epoch: Epoch = _EPOCH) -> Discovery:
        """Return a new discovery of the master *epoch*; all publish at the same place."""
        made = self.factory.settings(**self.settings)
        return self.factory.create(made, master_context(tmp_path, epoch=epoch))

    def published(self) -> Mapping[str, Endpoint]:
        """Return what a client finds now: instance id to endpoint."""
        raise NotImplementedError

    def break_down(self, discovery: Discovery) -> None:
        """Make the outside world unreachable for *discovery*."""
        raise NotImplementedError

    def test_nothing_is_applied_before_the_first_view(self, tmp_path: Path) -> None:
        """A new discovery acknowledges nothing."""
        assert within(self.answer_within_s, self.make(tmp_path).applied) is None

    def test_publishes_a_view_and_acknowledges_it(self, tmp_path: Path) -> None:
        """After `sync` clients find exactly the members, and `applied` names the revision."""
        discovery = self.make(tmp_path)
        self._sync(discovery, _view(3, 1, 2))
        assert self.published() == _endpoints(1, 2)
        applied = self._applied(discovery)
        assert (applied.epoch, applied.revision, applied.error) == (_EPOCH, 3, "")
        assert applied.name.strip()

    def test_a_view_twice_is_a_view_once(self, tmp_path: Path) -> None:
        """A repeated view changes nothing."""
        discovery = self.make(tmp_path)
        for _ in range(2):
            self._sync(discovery, _view(3, 1, 2))
            assert self.published() == _endpoints(1, 2)
            assert self._applied(discovery).revision == 3  # noqa: PLR2004 (the view's)

    def test_a_complete_view_removes_what_it_does_not_name(self, tmp_path: Path) -> None:
        """An instance that left the view gets no new client."""
        discovery = self.make(tmp_path)
        self._sync(discovery, _view(1, 1, 2, 3))
        self._sync(discovery, _view(2, 2))
        assert self.published() == _endpoints(2)

    def test_a_complete_view_is_obeyed_even_when_empty(self, tmp_path: Path) -> None:
        """No instance serves, so none is published."""
        discovery = self.make(tmp_path)
        self._sync(discovery, _view(1, 1, 2))
        self._sync(discovery, _view(2))
        assert self.published() == {}
        assert self._applied(discovery).revision == 2  # noqa: PLR2004 (the view's)

    def test_an_incomplete_view_adds_and_removes_nothing(self, tmp_path: Path) -> None:
        """A new master that has not probed every instance yet takes no traffic away."""
        discovery = self.make(tmp_path)
        self._sync(discovery, _view(1, 1, 2))
        self._sync(discovery, attrs.evolve(_view(2, 3), complete=False))
        assert self.published() == _endpoints(1, 2, 3)
        self._sync(discovery, attrs.evolve(_view(3), complete=False))
        assert self.published() == _endpoints(1, 2, 3)

    def test_the_views_of_the_next_master_begin_anew(self, tmp_path: Path) -> None:
        """A higher epoch is applied, even with a lower revision."""
        self._sync(self.make(tmp_path), _view(9, 1))
        later = Epoch(_EPOCH.incarnation, _EPOCH.attempt + 1)
        successor = self.make(tmp_path, later)
        self._sync(successor, attrs.evolve(_view(1, 2), epoch=later))
        assert self.published() == _endpoints(2)
        assert (self._applied(successor).epoch, self._applied(successor).revision) == (later, 1)

    def test_a_lower_epoch_is_refused(self, tmp_path: Path) -> None:
        """An old master that wakes up changes nothing, in either discovery."""
        old = self.make(tmp_path)
        self._sync(old, _view(5, 1))
        later = Epoch(_EPOCH.incarnation + 1, 1)
        new = self.make(tmp_path, later)
        self._sync(new, attrs.evolve(_view(1, 2, 3), epoch=later))
        for discovery in (old, new):
            with pytest.raises((Superseded, DiscoveryError)):
                self._sync(discovery, _view(6, 1))
            assert self.published() == _endpoints(2, 3)
        assert self._applied(new).epoch == later

    @for_any(examples=20, view=discovery_views(epoch=_EPOCH))
    def test_publishes_any_complete_view(self, tmp_path: Path, view: DiscoveryView) -> None:
        """Every member is published with its endpoint."""
        discovery = self.make(tmp_path)
        self._sync(discovery, attrs.evolve(view, complete=True))
        assert self.published() == {m.instance_id: m.endpoint for m in view.members}

    def test_a_moved_instance_is_found_at_its_new_place(self, tmp_path: Path) -> None:
        """The same id with another endpoint replaces the old one."""
        discovery = self.make(tmp_path)
        self._sync(discovery, _view(1, 1))
        moved = Endpoint("127.0.0.2", 1, 2, 3)
        member = attrs.evolve(_member(1), endpoint=moved)
        self._sync(discovery, attrs.evolve(_view(2), members=(member,)))
        assert self.published() == {member.instance_id: moved}

    def test_a_failure_is_raised_and_not_acknowledged(self, tmp_path: Path) -> None:
        """`DiscoveryError` asks for another try; `applied` still names the last success."""
        discovery = self.make(tmp_path)
        self._sync(discovery, _view(1, 1))
        self.break_down(discovery)
        with pytest.raises(DiscoveryError):
            self._sync(discovery, _view(2, 1, 2))
        assert self._applied(discovery).revision == 1

    def test_says_whether_it_can_be_reached(self, tmp_path: Path) -> None:
        """`reach` returns if the outside world answers, and raises if it does not."""
        discovery = self.make(tmp_path)
        within(_SYNC_WITHIN_S, lambda: discovery.reach(10.0), "reach")
        self.break_down(discovery)
        with pytest.raises(DiscoveryError):
            within(_SYNC_WITHIN_S, lambda: discovery.reach(1.0), "reach")

    def test_closing_with_withdraw_leaves_nothing(self, tmp_path: Path) -> None:
        """`down` removes everything; closing again does nothing."""
        discovery = self.make(tmp_path)
        self._sync(discovery, _view(1, 1, 2))
        self._close(discovery, withdraw=True)
        assert self.published() == {}
        self._close(discovery, withdraw=True)

    def test_closing_without_withdraw_leaves_everything(self, tmp_path: Path) -> None:
        """A master that leaves takes no traffic away."""
        discovery = self.make(tmp_path)
        self._sync(discovery, _view(1, 1, 2))
        self._close(discovery, withdraw=False)
        assert self.published() == _endpoints(1, 2)
        self._close(discovery, withdraw=False)

    def _applied(self, discovery: Discovery) -> Applied:
        applied = within(self.answer_within_s, discovery.applied, "applied")
        assert isinstance(applied, Applied)
        return applied

    def _sync(self, discovery: Discovery, view: DiscoveryView) -> None:
        within(_SYNC_WITHIN_S, lambda: discovery.sync(view), "sync")

    def _close(self, discovery: Discovery, *, withdraw: bool) -> None:
        within(self.answer_within_s, lambda: discovery.close(withdraw=withdraw), "close")


def _member(number: int) -> Member:
    endpoint = Endpoint("127.0.0.1", 8000 + 3 * number, 8001 + 3 * number, 8002 + 3 * number)
    return Member(f"fleet-{number:04d}", f"container-{number}", endpoint, "aaaaaaaaaaaa")


def _view(revision: int, *numbers: int) -> DiscoveryView:
    members = tuple(_member(number) for number in numbers)
    return DiscoveryView(_EPOCH, revision, complete=True, members=members)


def _endpoints(*numbers: int) -> dict[str, Endpoint]:
    return {_member(number).instance_id: _member(number).endpoint for number in numbers}
