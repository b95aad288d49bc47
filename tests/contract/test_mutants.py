"""A contract suite is worth what it catches: each broken provider must fail it."""

import importlib
import inspect
import itertools
from types import ModuleType

import pytest
from contract import fake_suites
from contract.inprocess import broken_promises, promises

SUITES = {
    "affinity": fake_suites.FakeAffinitySuite,
    "authorizer": fake_suites.FakeAuthorizerSuite,
    "uploader": fake_suites.FakeUploaderSuite,
    "clock": fake_suites.FakeClockSuite,
    "deployer": fake_suites.FakeDeployerSuite,
    "discovery": fake_suites.FakeDiscoverySuite,
    "user_directory": fake_suites.FakeUserDirectorySuite,
    "runtime": fake_suites.FakeRuntimeSuite,
    "scaling_policy": fake_suites.FakePolicySuite,
    "secret_store": fake_suites.FakeSecretStoreSuite,
    "signal": fake_suites.FakeSignalSuite,
    "state_store": fake_suites.FakeStateStoreSuite,
    "storage": fake_suites.FakeStorageSuite,
}


def mutants_of(seam: str) -> tuple[type, ...]:
    """Return the broken providers of one seam."""
    module: ModuleType = importlib.import_module(f"contract.mutants.{seam}")
    fake = SUITES[seam].kind
    kinds = [kind for kind in vars(module).values() if inspect.isclass(kind)]
    return tuple(k for k in kinds if issubclass(k, fake) and k.__module__ == module.__name__)


_TRIES = 10
"""A fault that shows only where two threads meet is looked for until they do."""

EVERY = [(seam, mutant) for seam in SUITES for mutant in mutants_of(seam)]


@pytest.mark.parametrize(
    ("seam", "mutant"), EVERY, ids=[f"{seam}-{mutant.__name__}" for seam, mutant in EVERY]
)
def test_a_broken_provider_fails_its_suite(seam, mutant):
    """The planted fault breaks at least one promise."""
    suite = type("Suite", (SUITES[seam],), {"kind": mutant})
    caught = any(True for _ in range(_TRIES) for _ in broken_promises(suite))
    assert caught, f"no promise of {seam} caught: {mutant.__doc__}"


@pytest.mark.parametrize("seam", SUITES)
def test_the_unbroken_fake_keeps_every_promise(seam):
    """The same runner finds nothing in the fake, so what it finds in a mutant is the mutant's."""
    assert [(name, repr(error)) for name, error in broken_promises(SUITES[seam])] == []


@pytest.mark.parametrize("seam", SUITES)
def test_every_seam_has_five_faults_in_words(seam):
    """Each broken provider says its fault in one line."""
    mutants = mutants_of(seam)
    assert len(mutants) >= 5
    assert all((mutant.__doc__ or "").strip().endswith(".") for mutant in mutants)


@pytest.mark.parametrize("seam", SUITES)
def test_no_promise_is_idle(seam):
    """Each test of a suite fails for at least one mutant, or it promises nothing."""
    idle = set(promises(SUITES[seam]))
    suites = [type("Suite", (SUITES[seam],), {"kind": mutant}) for mutant in mutants_of(seam)]
    for _, suite in itertools.product(range(_TRIES), suites):
        idle -= {name for name, _ in broken_promises(suite, sorted(idle))}
        if not idle:
            break
    assert idle == set()
