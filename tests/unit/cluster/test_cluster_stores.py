"""Secrets are read by a client, all of them, before anything starts."""

import json
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import attrs
import pytest
from fake_fleet import FakeFleet, FakePlugin

from tarn import plugins
from tarn.cluster import Cluster
from tarn.cluster.environment import ClusterEnvironment
from tarn.cluster.examining import secrets as looked
from tarn.cluster.start.stores import given, held
from tarn.domain import Choice, ClusterSpec, Secret
from tarn.domain.spec import ModelsSpec, TritonSpec
from tarn.errors import ConfigErrors, ProviderError
from tarn.hookspecs import SecretStoreFactory, hookimpl
from tarn.testing import fakes

SPEC = {"models": "models", "runtime": {"use": "fake"}}


class _Away(fakes.FakeSecretStore):
    """A store whose server does not answer."""

    def names(self) -> tuple[str, ...]:
        raise ProviderError("away", "the name node is down", code="TARN-3744", next_step="Start it")


@hookimpl
def tarn_secret_stores() -> Mapping[str, SecretStoreFactory]:
    return {
        "fake": fakes.fake_secret_store_factory(),
        "away": fakes.fake_secret_store_factory(_Away),
    }


STORES = SimpleNamespace(__name__="stores", tarn_secret_stores=tarn_secret_stores)


def around(fleet: FakeFleet) -> ClusterEnvironment:
    """Return the fleet's surroundings, with stores."""
    found = plugins.load([FakePlugin(fleet), STORES], points=())
    return attrs.evolve(fleet.environment, plugins=lambda: found)


def store(values: Mapping[str, str], **more: Any) -> Choice:
    return Choice("fake", {"values": dict(values), **more})


def spec(*stores: Choice, **env: str) -> ClusterSpec:
    return ClusterSpec("demo", ModelsSpec("models"), secrets=stores, triton=TritonSpec(env=env))


def test_every_store_is_read(fleet: FakeFleet) -> None:
    """By name for TARN itself; by variable for instances."""
    one = store({"huggingface.token": "hf", "tls": "pw"})
    other = store({"ngc": "key"}, names={"ngc": "NGC_API_KEY"})
    found = spec(one, other)
    assert {one.name: one.value.reveal() for one in held(found, around(fleet))} == {
        "huggingface.token": "hf", "tls": "pw", "ngc": "key",
    }  # fmt: skip
    variables = given(held(found, around(fleet)))
    assert variables == {
        "HUGGING_FACE_HUB_TOKEN": Secret("hf"),
        "HF_TOKEN": Secret("hf"),
        "NGC_API_KEY": Secret("key"),
    }


def test_everything_that_is_wrong_is_said_at_once(fleet: FakeFleet) -> None:
    """Each with its store; no value is in it, and the cause stays."""
    found = spec(
        store({"tarn.env.a": "canary"}, names={"gone": "X"}),
        Choice("away"),
        store({"tarn.env.set": "canary"}),
        SET="x",
    )
    with pytest.raises(ConfigErrors) as caught:
        held(found, around(fleet))
    told = [f"{one.code} {one}" for one in caught.value.errors]
    assert told == [
        (
            "TARN-3743 secrets[0]: options.names lists a secret 'gone' that the store does not "
            "have. There are: tarn.env.a."
        ),
        "TARN-3744 secrets[1]: away: the name node is down. Start it",
        "TARN-3743 secrets[2]: 'tarn.env.set' would become SET, which triton.env sets, too",
    ]
    assert isinstance(caught.value.errors[1].__cause__, ProviderError)


def test_up_brings_what_instances_get_and_nothing_else(fleet: FakeFleet) -> None:
    """The password of a keystore stays here; a value is in no other file."""
    chosen = {"use": "fake", "options": {"values": {"tarn.env.a": "canary", "tls": "other"}}}
    cluster = Cluster({"name": "demo", **SPEC}, environment=around(fleet), secrets=[chosen])
    cluster.up()
    files = fleet.asked[1][3]
    assert json.loads(files["secrets.json"]) == {"A": "canary"}
    assert not any(b"other" in data for name, data in files.items() if name != "spec.yaml")


def test_a_store_that_is_away_starts_and_stages_nothing(fleet: FakeFleet) -> None:
    """Nothing is copied, and nobody is asked to start anything."""
    heard: list[Any] = []
    cluster = Cluster(
        {"name": "demo", **SPEC}, environment=around(fleet), secrets=[{"use": "away"}]
    )
    with pytest.raises(ConfigErrors, match="the name node is down"):
        cluster.up(heard.append)
    assert fleet.verbs() == ["check"]
    assert "staging" not in {one.phase for one in heard}


def test_a_cluster_without_secrets_has_no_file_of_them(fleet: FakeFleet) -> None:
    """No store is asked where none is named."""
    Cluster({"name": "demo", **SPEC}, environment=around(fleet)).up()
    assert "secrets.json" not in fleet.asked[1][3]


def test_a_plan_and_the_doctor_show_names_only(fleet: FakeFleet) -> None:
    """What cannot be read is a finding of both."""
    made = Cluster(
        {"name": "demo", **SPEC},
        environment=around(fleet),
        secrets=[{"use": "fake", "options": {"values": {"tarn.env.a": "canary"}}}],
    )
    plan = made.plan()
    assert plan["environment"]["A"] == "***"
    assert "canary" not in str({**plan, "spec": None})
    seen = looked(spec(store({"tarn.env.a": "canary"})), around(fleet))
    assert (seen.seen, seen.findings) == ("instances get A", ())
    (finding,) = looked(spec(Choice("away")), around(fleet)).findings
    assert (finding.code, finding.fatal) == ("TARN-3744", True)
