"""Each contract suite over its fake; the mutants take the fake's place by other factories."""

from collections.abc import Mapping
from pathlib import Path

from tarn.domain import Endpoint, Running
from tarn.interfaces import Clock, Discovery, Runtime, SecretStore, Uploader, UserDirectory
from tarn.testing import contracts, fakes

__all__ = [
    "FakeAffinitySuite",
    "FakeAuthorizerSuite",
    "FakeClockSuite",
    "FakeDeployerSuite",
    "FakeDiscoverySuite",
    "FakePolicySuite",
    "FakeRuntimeSuite",
    "FakeSecretStoreSuite",
    "FakeSignalSuite",
    "FakeStateStoreSuite",
    "FakeStorageSuite",
    "FakeUploaderSuite",
    "FakeUserDirectorySuite",
]

_QUICK_S = 0.05
"""A fake has done it before the first look, so a second look is one too many."""
_ANSWER_S = 0.5
"""The mutants that block do so for longer than this."""


class FakeUploaderSuite(contracts.UploaderContract):
    kind = fakes.FakeUploader

    def make(self, tmp_path: Path) -> Uploader:
        return self.kind()

    def uri(self, carrier: Uploader) -> str:
        return "fake://far/file.tar.gz"

    def content(self, carrier: Uploader, uri: str) -> bytes:
        assert isinstance(carrier, fakes.FakeUploader)
        return carrier.there[uri]


class FakeClockSuite(contracts.ClockContract):
    kind = fakes.FakeClock

    def make(self) -> Clock:
        return self.kind()

    def pass_time(self, clock: Clock, by_s: float) -> None:
        assert isinstance(clock, fakes.FakeClock)
        clock.advance(by_s)


class FakeRuntimeSuite(contracts.RuntimeContract):
    kind = fakes.FakeRuntime
    settings = {"broken": ("bbbbbbbbbbbb",)}
    within_s = _QUICK_S
    answer_within_s = _ANSWER_S

    def setup_method(self) -> None:
        self.factory = fakes.fake_runtime_factory(runtime=self.kind)

    def end_stub(self, runtime: Runtime, running: Running) -> bool:
        assert isinstance(runtime, fakes.FakeRuntime)
        runtime.world.end_stub(running.instance_id, "process m_0_0 (pid 7) was killed", 3.0)
        return True

    def start_stub(self, runtime: Runtime, running: Running) -> None:
        assert isinstance(runtime, fakes.FakeRuntime)
        runtime.world.end_stub(running.instance_id, "")


class FakeDeployerSuite(contracts.DeployerContract):
    kind = fakes.FakeDeployer
    settings = {"doomed": ("doomed",)}
    within_s = _QUICK_S

    def setup_method(self) -> None:
        self.factory = fakes.fake_runtime_factory(deployer=self.kind)


class FakeStateStoreSuite(contracts.StateStoreContract):
    kind = fakes.FakeStateStore

    def setup_method(self) -> None:
        self.shelf = fakes.FakeShelf()
        self.factory = fakes.fake_runtime_factory(state_store=self._on)

    def _on(self, shelf: fakes.FakeShelf) -> fakes.FakeStateStore:
        self.shelf = shelf
        return self.kind(shelf)

    def damage(self, tmp_path: Path, newest: Path | None) -> None:
        self.shelf.damage_newest()

    def age(self, tmp_path: Path, newest: Path | None) -> None:
        self.shelf.make_newer()


class FakeStorageSuite(contracts.StorageContract):
    kind = fakes.FakeStorage

    def setup_method(self) -> None:
        self.repositories: dict[str, dict[str, bytes]] = {}
        self.factory = fakes.fake_storage_factory(self.repositories, self.kind)

    def place(self, tmp_path: Path, files: Mapping[str, bytes]) -> str:
        self.repositories["fake://models"] = dict(files)
        return "fake://models"

    def missing(self, tmp_path: Path) -> str:
        return "fake://nowhere"

    def remove(self, tmp_path: Path) -> None:
        del self.repositories["fake://models"]


class FakeDiscoverySuite(contracts.DiscoveryContract):
    kind = fakes.FakeDiscovery
    answer_within_s = _ANSWER_S

    def setup_method(self) -> None:
        self.registry = fakes.FakeRegistry()
        self.factory = fakes.fake_discovery_factory(self.registry, self.kind)

    def published(self) -> Mapping[str, Endpoint]:
        return {name: member.endpoint for name, member in self.registry.members.items()}

    def break_down(self, discovery: Discovery) -> None:
        assert isinstance(discovery, fakes.FakeDiscovery)
        discovery.broken = "the outside world is down"


class FakeAffinitySuite(contracts.AffinityContract):
    kind = fakes.FakeAffinity
    answers_within_s = _ANSWER_S

    def setup_method(self) -> None:
        self.factory = fakes.fake_affinity_factory(self.kind)


class FakeAuthorizerSuite(contracts.AuthorizerContract):
    kind = fakes.FakeAuthorizer
    answer_within_s = _ANSWER_S
    settings = {
        "allow": (("ops", "*"), ("alice", "infer"), ("*", "view")),
        "hidden": ("llama",),
    }

    def setup_method(self) -> None:
        self.factory = fakes.fake_authorizer_factory(self.kind)


class FakeUserDirectorySuite(contracts.UserDirectoryContract):
    kind = fakes.FakeUserDirectory
    own, own_short = "alice@FAKE.EXAMPLE", "alice"
    known, known_group = "alice", "analysts"

    def make(self, tmp_path: Path) -> UserDirectory:
        return self.kind()


class FakePolicySuite(contracts.ScalingPolicyContract):
    kind = fakes.FakePolicy
    answers_within_s = _ANSWER_S
    signals = ("load",)

    def setup_method(self) -> None:
        self.factory = fakes.fake_policy_factory(self.kind)


class FakeSecretStoreSuite(contracts.SecretStoreContract):
    kind = fakes.FakeSecretStore

    def setup_method(self) -> None:
        self.factory = fakes.fake_secret_store_factory(self.kind)

    def seed(self, tmp_path: Path, values: Mapping[str, str]) -> SecretStore:
        if self.writable:
            return super().seed(tmp_path, values)
        self.settings = {"writable": False, "values": dict(values)}
        return self.make(tmp_path)


class FakeSignalSuite(contracts.SignalContract):
    kind = fakes.FakeSignal
    answers_within_s = _ANSWER_S

    def setup_method(self) -> None:
        self.factory = fakes.fake_signal_factory(self.kind)
