"""The affinities that come with TARN: their rules, and what `tarn doctor` says."""

from pathlib import Path
from typing import Any

import attrs
import pytest

from tarn import plugins
from tarn.domain import AffinityRule, Choice, ClusterSpec, ModelTraits
from tarn.domain.spec import DiscoverySpec, ModelsSpec, ReplicasSpec
from tarn.interfaces import CheckResult
from tarn.testing.context import cluster_spec, master_context
from tarn_plugins.affinity import keys

OFFERED = plugins.load()
MODELS = (
    ModelTraits("acc", True, 60.0),
    ModelTraits("short", True, 0.5),
    ModelTraits("cached", response_cache=True),
    ModelTraits("echo"),
)
SEQUENCES = (
    AffinityRule(("short",), "sequence", idle_s=6.0),
    AffinityRule(("acc",), "sequence", idle_s=65.0),
)


def rules(tmp_path: Path, use: str, **options: Any) -> tuple[AffinityRule, ...]:
    """Return the rules of an affinity with these options."""
    factory = OFFERED.choose("affinity", use, "affinity.use")
    settings = OFFERED.settings(factory, options, "affinity.options")
    made: tuple[AffinityRule, ...] = factory.create(settings, master_context(tmp_path)).rules(
        MODELS
    )
    return made


def test_auto_keeps_sequences_only(tmp_path: Path) -> None:
    """A response cache counts if the user asks for it."""
    assert rules(tmp_path, "auto") == SEQUENCES
    cached = AffinityRule(("cached",), "body", first_bytes=4096, imbalance=125)
    assert rules(tmp_path, "auto", response_cache=True) == (*SEQUENCES, cached)
    assert rules(tmp_path, "none") == ()


def test_sequence_takes_models_that_do_not_say_it(tmp_path: Path) -> None:
    """What the user says of a model counts more than its configuration."""
    given = AffinityRule(("echo", "acc"), "sequence", idle_s=120.0)
    made = rules(tmp_path, "sequence", models=["echo", "acc"], idle="2m")
    assert made == (given, SEQUENCES[0])


def test_header_and_json_come_after_the_sequences(tmp_path: Path) -> None:
    """So a model with sequences keeps them."""
    header = AffinityRule((), "header", header="X-User", idle_s=600.0)
    assert rules(tmp_path, "header", name="X-User") == (*SEQUENCES, header)
    json = AffinityRule(("echo",), "json", path="prompt", first_bytes=64, imbalance=0)
    made = rules(tmp_path, "json", path="prompt", first_bytes=64, imbalance=0, models=["echo"])
    assert made == (*SEQUENCES, json)


@pytest.mark.parametrize(
    ("use", "options", "path"),
    [
        ("json", {}, "affinity.options.path"),
        ("json", {"path": ""}, "affinity.options.path"),
        ("json", {"path": "a", "imbalance": 50}, "affinity.options.imbalance"),
        ("header", {"name": "a b"}, "affinity.options.name"),
        ("sequence", {"idle": "0s"}, "affinity.options.idle"),
        ("auto", {"first_bytes": 0}, "affinity.options.first_bytes"),
        ("none", {"x": 1}, "affinity.options.x"),
    ],
)
def test_wrong_options_are_refused_with_their_key(use: str, options: Any, path: str) -> None:
    """Before anything starts."""
    factory = OFFERED.choose("affinity", use, "affinity.use")
    problems = OFFERED.problems(factory, options, "affinity.options")
    assert [problem.path for problem in problems] == [path]


def spec(repository: Path, use: str, *discoveries: str, most: int = 3) -> ClusterSpec:
    return attrs.evolve(
        cluster_spec("w"),
        models=ModelsSpec(str(repository)),
        affinity=Choice(use),
        discovery=tuple(DiscoverySpec(one) for one in discoveries),
        replicas=ReplicasSpec(max=most),
    )


def looked(given: ClusterSpec) -> CheckResult | None:
    """Return what the check sees; None: there is none."""
    checks = tuple(keys.tarn_doctor_checks(given))
    return checks[0].look() if checks else None


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """Two models: one with sequences, one that calls it as an ensemble."""
    acc, flow = tmp_path / "acc", tmp_path / "flow"
    for model in (acc, flow):
        (model / "1").mkdir(parents=True)
    acc.joinpath("config.pbtxt").write_text('backend: "python"\nsequence_batching { }\n')
    flow.joinpath("config.pbtxt").write_text(
        'platform: "ensemble"\nensemble_scheduling { step [ { model_name: "acc" } ] }\n'
    )
    return tmp_path


def test_doctor_names_what_tears_sequences_apart(repository: Path) -> None:
    """The key, what it does, the models, and what to do."""
    result = looked(spec(repository, "none", "haproxy", "zookeeper"))
    assert result is not None
    none, zookeeper = result.findings
    assert (none.code, none.where, none.fatal) == ("TARN-2008", "affinity.use = 'none'", False)
    assert none.found == "every request may reach any instance, and acc, flow keep sequences"
    assert zookeeper.where == "discovery[1].use = 'zookeeper'"
    assert "Knox" in zookeeper.next_step


def test_doctor_says_nothing_where_nothing_is_torn_apart(repository: Path, tmp_path: Path) -> None:
    """One instance, a door that keeps sequences, or no such model."""
    assert looked(spec(repository, "auto", "haproxy")) is None
    assert looked(spec(repository, "none", most=1)) is None
    empty = tmp_path / "empty"
    empty.mkdir()
    assert looked(spec(empty, "none")) == CheckResult("no model keeps sequences")
    away = looked(spec(tmp_path / "nowhere", "none"))
    assert away is not None
    assert not away.known
