"""Fakes of the providers that plugins offer by name, in memory."""

import hashlib
import math
import shutil
import tempfile
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import ClassVar

import attrs

from tarn.domain import (
    AffinityRule,
    Applied,
    DiscoveryView,
    Epoch,
    FleetView,
    Known,
    Member,
    ModelTraits,
    Principal,
    Readiness,
    Sample,
    Unknown,
    Verdict,
    Wish,
)
from tarn.errors import DiscoveryError, NotFoundError, ProviderError, StorageError, Superseded
from tarn.hookspecs import Factory, SecretStoreFactory, StorageFactory
from tarn.interfaces import (
    Affinity,
    Authorizer,
    ClientContext,
    Clock,
    Discovery,
    MasterContext,
    Progress,
    ScalingPolicy,
    Secret,
    SecretStore,
    Signal,
    Staged,
)
from tarn.testing.fakes.runtime import FakeClock

__all__ = [
    "FakeAffinity",
    "FakeAffinitySettings",
    "FakeAuthorizer",
    "FakeAuthorizerSettings",
    "FakeDiscovery",
    "FakeDiscoverySettings",
    "FakePolicy",
    "FakePolicySettings",
    "FakeRegistry",
    "FakeSecretStore",
    "FakeSecretStoreSettings",
    "FakeSignal",
    "FakeSignalSettings",
    "FakeStorage",
    "fake_affinity_factory",
    "fake_authorizer_factory",
    "fake_discovery_factory",
    "fake_policy_factory",
    "fake_secret_store_factory",
    "fake_signal_factory",
    "fake_storage_factory",
]


@attrs.frozen
class FakeAffinitySettings:
    """How long sequences keep their instance beyond the time of their model."""

    margin_s: float = 5.0


class FakeAffinity:
    """Has a rule for all models with sequences; usable from any thread."""

    def __init__(self, settings: FakeAffinitySettings | None = None) -> None:
        self.settings = settings or FakeAffinitySettings()

    def rules(self, models: Sequence[ModelTraits]) -> tuple[AffinityRule, ...]:
        """Return one rule, or none if no model has sequences."""
        kept = sorted(model.name for model in models if model.sequence_batching)
        if not kept:
            return ()
        idle_s = self.settings.margin_s + max(model.max_sequence_idle_s for model in models)
        return (AffinityRule(tuple(kept), "sequence", idle_s=idle_s),)


def fake_affinity_factory(kind: type[FakeAffinity] = FakeAffinity) -> Factory[Affinity]:
    """Return a factory of affinities of *kind*."""

    def create(settings: FakeAffinitySettings, _context: MasterContext) -> Affinity:
        return kind(settings)

    return Factory(FakeAffinitySettings, create, "one rule for all sequences, for tests")


@attrs.frozen
class FakeAuthorizerSettings:
    """The rules; an action that no rule allows is denied."""

    allow: tuple[tuple[str, str], ...] = ()
    """(user, action) pairs; ``*`` stands for any."""
    hidden: tuple[str, ...] = ()
    """Models that no user may use."""
    unready: str = ""
    """Why it cannot answer; empty: it can."""


class FakeAuthorizer:
    """Answers by its settings; usable from any thread."""

    def __init__(self, settings: FakeAuthorizerSettings | None = None) -> None:
        self.settings = settings or FakeAuthorizerSettings((("*", "*"),))

    def check(self, principal: Principal, action: str, model: str) -> Verdict:
        """Answer by the rules; deny everything while `unready` is set."""
        if self.settings.unready:
            return Verdict(allowed=False, reason=self.settings.unready)
        if model in self.settings.hidden:
            return Verdict(allowed=False, reason=f"nobody may use {model!r}")
        for user, what in self.settings.allow:
            if user in ("*", principal.user) and what in ("*", action):
                return Verdict(allowed=True, reason=f"the rule ({user}, {what}) allows it")
        return Verdict(allowed=False, reason=f"no rule lets {principal.user!r} {action}")

    def check_each(
        self, principal: Principal, action: str, models: Sequence[str]
    ) -> tuple[Verdict, ...]:
        """Answer for each model."""
        return tuple(self.check(principal, action, model) for model in models)

    def ready(self) -> Readiness:
        """Return whether `unready` is empty."""
        return Readiness(ready=not self.settings.unready, reason=self.settings.unready)

    def close(self) -> None:
        """Do nothing: nothing is open."""


def fake_authorizer_factory(kind: type[FakeAuthorizer] = FakeAuthorizer) -> Factory[Authorizer]:
    """Return a factory of authorizers of *kind*."""

    def create(settings: FakeAuthorizerSettings, _context: MasterContext) -> Authorizer:
        return kind(settings)

    return Factory(FakeAuthorizerSettings, create, "rules in memory, for tests")


class FakeRegistry:
    """The memory behind discoveries: the members that clients would find."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.members: dict[str, Member] = {}
        self.epoch = Epoch(0, 0)
        """The highest epoch that published."""


class FakeDiscovery:
    """Publishes into a `FakeRegistry`; usable from any thread.

    Attributes:
        views: Every view that was published, in order.
        late: While set, `applied` still returns its last value.
        broken: While set, `sync` raises ``DiscoveryError`` with this text.
    """

    def __init__(
        self, registry: FakeRegistry | None = None, clock: Clock | None = None, name: str = "fake"
    ) -> None:
        self.registry = registry or FakeRegistry()
        self.clock = clock or FakeClock()
        self.name = name
        self.views: list[DiscoveryView] = []
        self.late = False
        self.broken = ""
        self._done: Applied | None = None
        self._said: Applied | None = None

    def reach(self, within_s: float) -> None:
        """Answer at once, unless `broken`."""
        if self.broken:
            raise DiscoveryError(self.name, self.broken, retry_after_s=1.0)

    def sync(self, view: DiscoveryView) -> None:
        """Publish *view* at once."""
        self.reach(0.0)
        with self.registry.lock:
            if view.epoch < self.registry.epoch:
                raise Superseded(str(view.epoch), str(self.registry.epoch))
            self.registry.epoch = view.epoch
            self.publish(view)
            self.views.append(view)
            self._done = Applied(self.name, view.epoch, view.revision, self.clock.at())

    def publish(self, view: DiscoveryView) -> None:
        """Change the members; called with the registry's lock held."""
        wanted = {member.instance_id: member for member in view.members}
        old = {} if view.complete else self.registry.members
        self.registry.members = {**old, **wanted}

    def applied(self) -> Applied | None:
        """Return the last acknowledged view, or an older one while `late`."""
        if not self.late:
            self._said = self._done
        return self._said

    def close(self, *, withdraw: bool) -> None:
        """End; with *withdraw* remove every member."""
        if withdraw:
            with self.registry.lock:
                self.registry.members = {}


@attrs.frozen
class FakeDiscoverySettings:
    """The settings of the fake discovery."""

    name: str = "fake"


def fake_discovery_factory(
    registry: FakeRegistry, kind: type[FakeDiscovery] = FakeDiscovery
) -> Factory[Discovery]:
    """Return a factory of discoveries that publish into *registry*."""

    def create(settings: FakeDiscoverySettings, context: MasterContext) -> Discovery:
        return kind(registry, context.clock, settings.name)

    return Factory(FakeDiscoverySettings, create, "publishes into memory, for tests")


@attrs.frozen
class FakePolicySettings:
    """The settings of the fake policy."""

    signal: str = "load"
    """The signal that it follows."""
    per_replica: float = attrs.field(default=1.0, validator=attrs.validators.gt(0))
    """The share of the signal for one replica."""


class FakePolicy:
    """Wants the newest value of one signal, divided by a replica's share and rounded up."""

    def __init__(self, settings: FakePolicySettings | None = None) -> None:
        self.settings = settings or FakePolicySettings()

    def wanted(self, fleet: FleetView) -> Wish:
        """Return the wish; no opinion if the signal is unknown or not finite."""
        sample = fleet.latest(self.settings.signal)
        if not isinstance(sample, Known):
            return Wish(None, f"{self.settings.signal} is unknown: {sample.reason}")
        if not math.isfinite(sample.value):
            return Wish(None, f"{self.settings.signal} is {sample.value}")
        replicas = max(0, math.ceil(sample.value / self.settings.per_replica))
        return Wish(replicas, f"{self.settings.signal} is {sample.value:g}")


def fake_policy_factory(kind: type[FakePolicy] = FakePolicy) -> Factory[ScalingPolicy]:
    """Return a factory of policies of *kind*."""

    def create(settings: FakePolicySettings, _context: MasterContext) -> ScalingPolicy:
        return kind(settings)

    return Factory(FakePolicySettings, create, "follows one signal, for tests")


@attrs.frozen
class FakeSecretStoreSettings:
    """The settings of the fake secret store."""

    values: dict[str, str] = attrs.field(factory=dict, repr=False, hash=False)
    writable: bool = True
    names: dict[str, str] = attrs.field(factory=dict, hash=False)
    """Name of a secret to the environment variable that instances get."""


class FakeSecretStore:
    """Keeps a copy of its values; usable from any thread."""

    def __init__(self, settings: FakeSecretStoreSettings | None = None) -> None:
        self.settings = settings or FakeSecretStoreSettings()
        self._lock = threading.Lock()
        self._values = dict(self.settings.values)

    def names(self) -> tuple[str, ...]:
        """Return the names, sorted."""
        with self._lock:
            return tuple(sorted(self._values))

    def read(self, name: str) -> Secret:
        """Return one secret."""
        with self._lock:
            if name not in self._values:
                raise NotFoundError(f"there is no secret '{name}'", where="fake secret store")
            return Secret(self._values[name])

    def write(self, name: str, value: str) -> None:
        """Keep *value*, unless the store is read-only."""
        if not self.settings.writable:
            raise ProviderError("fake", f"'{name}' cannot be written: the store is read-only")
        with self._lock:
            self._values[name] = value


def fake_secret_store_factory(
    kind: type[FakeSecretStore] = FakeSecretStore,
) -> SecretStoreFactory:
    """Return a factory of secret stores of *kind*."""

    def create(settings: FakeSecretStoreSettings, _context: ClientContext) -> SecretStore:
        return kind(settings)

    return SecretStoreFactory(
        FakeSecretStoreSettings,
        create,
        "secrets in memory, for tests",
        names=lambda settings: settings.names,
    )


History = tuple[tuple[float, Mapping[str, Sample[float]]], ...]
"""The samples of one instance: (monotonic seconds, metrics), oldest first."""


@attrs.frozen
class FakeSignalSettings:
    """The settings of the fake signal."""

    metric: str = "pending"


class FakeSignal:
    """The mean of the known values of one metric in the window, over all instances."""

    def __init__(self, settings: FakeSignalSettings | None = None) -> None:
        self.settings = settings or FakeSignalSettings()

    def read(self, samples: Mapping[str, History], window_s: float) -> Sample[float]:
        """Return the mean, whose age is that of the newest value in it."""
        newest_s = max(
            (taken_s for history in samples.values() for taken_s, _ in history), default=0
        )
        values, ages_s = [], []
        for history in samples.values():
            for taken_s, metrics in history:
                sample = metrics.get(self.settings.metric)
                fresh = newest_s - taken_s <= window_s
                if fresh and isinstance(sample, Known) and math.isfinite(sample.value):
                    values.append(sample.value)
                    ages_s.append(newest_s - taken_s + sample.age_s)
        if not values:
            return Unknown(f"{self.settings.metric} is unknown in the last {window_s:g} s")
        return Known(math.fsum(value / len(values) for value in values), min(ages_s))


def fake_signal_factory(kind: type[FakeSignal] = FakeSignal) -> Factory[Signal]:
    """Return a factory of signals of *kind*."""

    def create(settings: FakeSignalSettings, _context: MasterContext) -> Signal:
        return kind(settings)

    return Factory(FakeSignalSettings, create, "the mean of one metric, for tests")


class FakeStorage:
    """Repositories as dictionaries of relative path to content, by URI."""

    schemes: ClassVar[frozenset[str]] = frozenset({"fake"})

    def __init__(self, repositories: dict[str, dict[str, bytes]] | None = None) -> None:
        self.repositories = {} if repositories is None else repositories
        self.broken = ""
        """While set, resolving fails half-way with this text."""

    def resolve(self, uri: str, context: ClientContext) -> Staged:
        """Copy the repository into the cache, under its content hash."""
        files = self.repositories.get(uri)
        if files is None:
            raise StorageError("fake", "there is no such repository", where=uri)
        digest = self.digest(files)
        place = context.paths.cache / "fake" / digest
        if not place.exists():
            self.copy(files, place, uri)
        context.progress(Progress("staging", uri, len(files), len(files)))
        size = sum(len(content) for content in files.values())
        return Staged(str(place), "local", digest, size)

    def digest(self, files: dict[str, bytes]) -> str:
        """Return the hash of names and contents."""
        seen = hashlib.sha256()
        for name, content in sorted(files.items()):
            seen.update(f"{len(name.encode())}:{name}:{len(content)}:".encode() + content)
        return seen.hexdigest()

    def copy(self, files: dict[str, bytes], place: Path, uri: str) -> None:
        """Write *files* into a new directory, and rename it to *place*."""
        place.parent.mkdir(parents=True, exist_ok=True)
        fresh = Path(tempfile.mkdtemp(dir=place.parent))
        for name, content in files.items():
            (fresh / name).parent.mkdir(parents=True, exist_ok=True)
            (fresh / name).write_bytes(content)
            if self.broken:
                shutil.rmtree(fresh)
                raise StorageError("fake", self.broken, where=uri)
        try:
            fresh.rename(place)
        except OSError:
            # another call was first, with the same content
            shutil.rmtree(fresh)


def fake_storage_factory(
    repositories: dict[str, dict[str, bytes]], kind: type[FakeStorage] = FakeStorage
) -> StorageFactory:
    """Return a factory of storages over *repositories*, for URIs ``fake://…``."""
    return StorageFactory(
        kind.schemes, lambda: kind(repositories), "repositories in memory, for tests"
    )
