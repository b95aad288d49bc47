"""Checked by mypy, never run: each fake is what its Protocol asks for."""

from tarn.clock import SystemClock
from tarn.interfaces import (
    Authorizer,
    Clock,
    Deployer,
    Discovery,
    Runtime,
    ScalingPolicy,
    SecretStore,
    Signal,
    StateStore,
    Storage,
    UserDirectory,
)
from tarn.testing import fakes

real_clock: Clock = SystemClock()
clock: Clock = fakes.FakeClock()
runtime: Runtime = fakes.FakeRuntime()
deployer: Deployer = fakes.FakeDeployer()
state_store: StateStore = fakes.FakeStateStore()
storage: Storage = fakes.FakeStorage()
discovery: Discovery = fakes.FakeDiscovery()
authorizer: Authorizer = fakes.FakeAuthorizer()
names: UserDirectory = fakes.FakeUserDirectory()
policy: ScalingPolicy = fakes.FakePolicy()
secret_store: SecretStore = fakes.FakeSecretStore()
signal: Signal = fakes.FakeSignal()
