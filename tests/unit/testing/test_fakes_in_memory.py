"""What tests may program on the smaller fakes."""

import pytest

from tarn.domain import ClusterSpec, DiscoveryView, Epoch, SavedState
from tarn.domain.spec import ModelsSpec
from tarn.errors import DiscoveryError, LaunchError, StorageError
from tarn.interfaces import Staged
from tarn.testing.context import client_context
from tarn.testing.fakes import (
    FakeClock,
    FakeClusters,
    FakeDeployer,
    FakeDiscovery,
    FakeShelf,
    FakeStateStore,
    FakeStorage,
)

VIEW = DiscoveryView(Epoch(1, 1), 1, complete=True)


def test_a_clock_moves_by_hand_and_never_back():
    """Wall time may jump; monotonic time only passes."""
    clock = FakeClock(now_s=5.0, at=1e9)
    clock.advance(2.5)
    clock.jump(3e9)
    assert (clock.now_s(), clock.at()) == (7.5, 3e9)
    with pytest.raises(ValueError, match="does not go back"):
        clock.advance(-1.0)


def test_a_late_discovery_acknowledges_later():
    """It has published already, and does not say so yet."""
    discovery = FakeDiscovery()
    discovery.late = True
    discovery.sync(VIEW)
    assert discovery.applied() is None
    discovery.late = False
    assert discovery.applied().revision == 1


def test_a_broken_discovery_raises_until_it_is_mended():
    """What it could not do is not among its views."""
    discovery = FakeDiscovery()
    discovery.broken = "no quorum"
    with pytest.raises(DiscoveryError, match="no quorum"):
        discovery.sync(VIEW)
    discovery.broken = ""
    discovery.sync(VIEW)
    assert discovery.views == [VIEW]


def test_a_broken_shelf_takes_no_state():
    """The one before stays."""
    store = FakeStateStore(FakeShelf())
    store.save(SavedState(1), Epoch(1, 1))
    store.shelf.broken = "no space left on device"
    with pytest.raises(OSError, match="no space"):
        store.save(SavedState(2), Epoch(1, 1))
    assert store.load() == (SavedState(1), ())
    assert store.shelf.saves == 1


def test_a_broken_storage_leaves_no_half_copy(tmp_path):
    """The old copy stays usable, and nothing else is in the cache."""
    storage = FakeStorage({"fake://m": {"a": b"1", "b": b"2"}})
    context = client_context(tmp_path)
    first = storage.resolve("fake://m", context)
    storage.repositories["fake://m"]["c"] = b"3"
    storage.broken = "the connection was reset"
    with pytest.raises(StorageError, match="reset"):
        storage.resolve("fake://m", context)
    copies = list((context.paths.cache / "fake").iterdir())
    assert [str(copy) for copy in copies] == [first.location]


def test_a_doomed_master_and_a_moved_one():
    """A deployer fails by name, and a master may listen elsewhere later."""
    deployer = FakeDeployer(FakeClusters())
    deployer.land.doomed["bad"] = "port 80 is taken"
    staged = Staged("/m", "in_place")
    with pytest.raises(LaunchError, match="port 80"):
        deployer.submit(ClusterSpec("bad", ModelsSpec("/m")), staged, {})
    ref = deployer.submit(ClusterSpec("good", ModelsSpec("/m")), staged, {"spec.yaml": b"x"})
    moved = deployer.move(ref, "http://127.0.0.1:2")
    assert deployer.find("good") == moved
    assert deployer.land.files == {"good": {"spec.yaml": b"x"}}
