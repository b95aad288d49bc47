"""The thread that applies views."""

import threading
import time

import pytest
from fake_master import instance, view

from tarn.clock import SystemClock
from tarn.errors import DiscoveryError, Superseded
from tarn.follow.agent import ViewApplier
from tarn.testing.fakes import FakeDiscovery
from tarn.testing.wait import until


class Failing(FakeDiscovery):
    """Raises what it is told to, and remembers when it was asked."""

    def __init__(self, *errors):
        super().__init__()
        self.errors, self.tries = list(errors), []

    def sync(self, view):
        self.tries.append((time.monotonic(), view.revision))
        if self.errors:
            raise self.errors.pop(0)
        super().sync(view)


@pytest.fixture
def applying():
    """Make the thread for a discovery; all of them end."""
    made = []

    def make(discovery, changed=lambda: None, back_off_s=(0.05, 0.2)):
        one = ViewApplier(discovery, SystemClock(), changed, back_off_s)
        one.start()
        made.append(one)
        return one

    yield make
    for one in made:
        assert one.close()


def seen(revision):
    return view((instance(1),), revision)


def test_what_failed_is_tried_again_and_less_often_each_time(applying):
    """The pause doubles up to its longest; the failure keeps the time of its first."""
    error = DiscoveryError("haproxy", "away", retry_after_s=0.1)
    discovery, changes = Failing(*[error] * 5), []
    one = applying(discovery, lambda: changes.append(one.failure))
    one.post(seen(1))
    until(lambda: one.done == seen(1))
    pauses = [b - a for (a, _), (b, _) in zip(discovery.tries, discovery.tries[1:], strict=False)]
    assert all(p >= least for p, least in zip(pauses, (0.05, 0.1, 0.2, 0.2, 0.2), strict=True))
    until(lambda: len(changes) == 6)
    assert one.failure is None
    assert len({failure.at for failure in changes[:5]}) == 1


def test_a_newer_view_is_not_kept_waiting_by_a_failed_one(applying):
    """It is applied at once, and the old one never again."""
    discovery = Failing(DiscoveryError("haproxy", "away"))
    one = applying(discovery, back_off_s=(60.0, 60.0))
    one.post(seen(1))
    until(lambda: one.failure)
    one.post(seen(2))
    until(lambda: one.done == seen(2))
    assert [revision for _, revision in discovery.tries] == [1, 2]


def test_a_superseded_view_is_left_until_a_newer_one_comes(applying):
    """Trying it again could only be refused again."""
    discovery = Failing(Superseded("1-1", "1-2"))
    one = applying(discovery)
    one.post(seen(1))
    until(lambda: one.failure)
    threading.Event().wait(0.3)
    assert len(discovery.tries) == 1
    one.post(seen(2))
    until(lambda: one.done == seen(2))


def test_a_bug_of_the_discovery_ends_nothing(applying):
    """It is shown with its class, and tried again."""
    discovery, failures = Failing(ZeroDivisionError("oh")), []
    one = applying(discovery, lambda: failures.append(one.failure))
    one.post(seen(1))
    until(lambda: one.done == seen(1))
    assert failures[0].why == "ZeroDivisionError: oh"
