"""One fake for each Protocol in `tarn.interfaces`: in memory, programmable, passed as arguments."""

from tarn.testing.fakes.authorizer import (
    FakeAuthorizer,
    FakeAuthorizerSettings,
    fake_authorizer_factory,
)
from tarn.testing.fakes.ceiling_source import (
    FakeCeilingSource,
    FakeCeilingSourceSettings,
    FakeFarm,
    fake_ceiling_source_factory,
)
from tarn.testing.fakes.clock import FakeClock
from tarn.testing.fakes.deployer import FakeClusters, FakeDeployer
from tarn.testing.fakes.discovery import (
    FakeDiscovery,
    FakeDiscoverySettings,
    FakeRegistry,
    fake_discovery_factory,
)
from tarn.testing.fakes.offer import FakeRuntimeSettings, fake_runtime_factory
from tarn.testing.fakes.runtime import FakeRuntime
from tarn.testing.fakes.scaling_policy import FakePolicy, FakePolicySettings, fake_policy_factory
from tarn.testing.fakes.secret_store import (
    FakeSecretStore,
    FakeSecretStoreSettings,
    fake_secret_store_factory,
)
from tarn.testing.fakes.signal import FakeSignal, FakeSignalSettings, fake_signal_factory
from tarn.testing.fakes.state_store import FakeShelf, FakeStateStore
from tarn.testing.fakes.storage import FakeStorage, fake_storage_factory
from tarn.testing.fakes.uploader import FakeUploader
from tarn.testing.fakes.user_directory import FakeUserDirectory
from tarn.testing.fakes.world import FakeWorld

__all__ = [
    "FakeAuthorizer",
    "FakeAuthorizerSettings",
    "FakeCeilingSource",
    "FakeCeilingSourceSettings",
    "FakeClock",
    "FakeClusters",
    "FakeDeployer",
    "FakeDiscovery",
    "FakeDiscoverySettings",
    "FakeFarm",
    "FakePolicy",
    "FakePolicySettings",
    "FakeRegistry",
    "FakeRuntime",
    "FakeRuntimeSettings",
    "FakeSecretStore",
    "FakeSecretStoreSettings",
    "FakeShelf",
    "FakeSignal",
    "FakeSignalSettings",
    "FakeStateStore",
    "FakeStorage",
    "FakeUploader",
    "FakeUserDirectory",
    "FakeWorld",
    "fake_authorizer_factory",
    "fake_ceiling_source_factory",
    "fake_discovery_factory",
    "fake_policy_factory",
    "fake_runtime_factory",
    "fake_secret_store_factory",
    "fake_signal_factory",
    "fake_storage_factory",
]
