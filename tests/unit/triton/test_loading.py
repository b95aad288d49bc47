"""How far a starting Triton is."""

from tarn.triton.exits import loading

BEGUN = 'I1127 23:52:36.260288 2510 model_lifecycle.cc:472] "loading: {}:1"'
GOOD = "I1127 23:52:37.260288 2510 model_lifecycle.cc:839] \"successfully loaded '{}'\""
BAD = "E1127 23:52:37.260288 2510 model_lifecycle.cc:642] \"failed to load '{}' version 1: x\""


def test_counts_models_begun_and_settled_from_a_log() -> None:
    """A failed one is settled too; other lines count for nothing."""
    lines = [BEGUN.format("a"), "junk", BEGUN.format("b:c"), BEGUN.format("d"), GOOD.format("a")]
    assert loading(lines) == (1, 3)
    assert loading([*lines, BAD.format("d"), GOOD.format("b:c")]) == (3, 3)


def test_an_empty_log_has_begun_nothing() -> None:
    """Nothing of nothing."""
    assert loading([]) == (0, 0)
