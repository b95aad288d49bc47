"""What an update does with each key of the spec."""

import attrs
import pytest

from tarn.config import dump
from tarn.config.loading import leaves, spec_hash
from tarn.domain.changes import Effect, SpecChange, changes, effect_of
from tarn.testing.context import cluster_spec

SPEC = dict(leaves(dump(cluster_spec())))


@pytest.mark.parametrize("path", sorted(SPEC))
def test_every_key_has_an_effect(path: str) -> None:
    """A new key is decided about, not forgotten; what is refused says why."""
    effect, why = effect_of(path)
    assert bool(why) is (effect in (Effect.REFUSED, Effect.NOTHING))


def test_a_key_that_nobody_knows_is_an_error() -> None:
    with pytest.raises(LookupError):
        effect_of("weather")


def test_the_longest_prefix_decides() -> None:
    assert effect_of("instance.resources.gpus")[0] is Effect.ROLLING
    assert effect_of("instance.unwell.eject")[0] is Effect.LIVE
    assert effect_of("models.serve[0]")[0] is Effect.ROLLING
    assert effect_of("scaling.options.target")[0] is Effect.LIVE
    assert effect_of("scaling.interval")[0] is Effect.REFUSED


def test_what_differs_is_named_in_order() -> None:
    before = [("replicas.max", 3), ("models.repository", "/old"), ("drain.timeout", "10m")]
    after = [("replicas.max", 5), ("models.repository", "/new"), ("drain.timeout", "10m")]
    assert list(changes(before, after)) == [
        SpecChange("models.repository", "/old", "/new", Effect.ROLLING),
        SpecChange("replicas.max", 3, 5, Effect.LIVE),
    ]
    assert str(SpecChange("replicas.initial", None, 2, Effect.NOTHING)) == (
        "replicas.initial: (not set) -> 2"
    )


def test_the_hash_of_instances_changes_with_what_replaces_them_and_with_nothing_else() -> None:
    """A changed limit, a changed watch over instances: no instance is replaced for it."""
    spec = cluster_spec()
    other = attrs.evolve(spec, models=attrs.evolve(spec.models, repository="/other"))
    image = attrs.evolve(spec, triton=attrs.evolve(spec.triton, image="other"))
    assert len({spec_hash(one) for one in (spec, other, image)}) == 3
    assert spec_hash(spec, "/a/copy") != spec_hash(spec, "/another/copy")
    larger = attrs.evolve(spec, replicas=attrs.evolve(spec.replicas, max=99))
    older = attrs.evolve(spec, instance=attrs.evolve(spec.instance, max_age_s=60.0))
    assert {spec_hash(one) for one in (larger, older)} == {spec_hash(spec)}
