"""Which test request a model gets."""

from tarn.triton.test_requests import FILE, MADE, WARM_UP, TestRequest
from tarn.triton.test_sources import KnownTests

CONFIG = {
    "input": [{"name": "IN", "data_type": "TYPE_FP32", "dims": [1]}],
    "instance_group": [{"count": 2}],
}
WRITTEN = (TestRequest("m", b"f"), TestRequest("m", b"w", source=WARM_UP))


def source(known: KnownTests, model: str = "m") -> str:
    test = known.test_for(model)
    return "" if test is None else test.source


def test_the_file_comes_first_then_the_warm_up_then_what_is_made() -> None:
    """Each when the one before says nothing of any instance."""
    known = KnownTests(WRITTEN)
    known.learn("m", CONFIG)
    for expected in (FILE, WARM_UP, MADE):
        assert source(known) == expected
        test = known.test_for("m")
        assert test is not None
        assert test.copies == 2
        known.refuse(test, "400")
    assert source(known) == ""
    assert known.why_none("m") == "the generated request was refused: 400"


def test_another_configuration_makes_another_request() -> None:
    """The same one again does not."""
    known = KnownTests()
    known.learn("m", CONFIG)
    made = known.test_for("m")
    assert made is not None
    known.prove(made)
    known.refuse(made, "400")
    known.learn("m", CONFIG)
    assert source(known) == ""
    known.learn("m", {"input": []})
    assert source(known) == MADE
    again = known.test_for("m")
    assert again is not None
    assert again.body != made.body
    assert known.test_for("m", 2).body is again.body  # type: ignore[union-attr]
    assert not known.is_proven(made)


def test_none_is_sent_where_the_user_wants_none() -> None:
    known = KnownTests(WRITTEN, off=True)
    known.learn("m", CONFIG)
    assert source(known) == ""
    assert known.why_none("m") == "instance.test_request is none"


def test_a_model_of_which_nothing_is_known_has_none() -> None:
    assert KnownTests(WRITTEN).test_for("other") is None
    assert KnownTests().why_none("m") == "its configuration is not known yet"
    known = KnownTests()
    known.learn("m", {"sequence_batching": {}})
    assert "state for each sequence" in known.why_none("m")


def test_a_peer_is_asked_only_while_zeros_are_not_proven() -> None:
    """By the same request, so that the model's own error tells something."""
    known = KnownTests()
    known.learn("m", CONFIG)
    both = known.tests_for("a", "m", 7, peer="b", timeout_s=3.0)
    assert both["a"] == both["b"]
    assert (both["a"].number, both["a"].timeout_s) == (7, 3.0)
    known.prove(both["b"])
    assert set(known.tests_for("a", "m", 8, peer="b")) == {"a"}
    assert set(KnownTests(WRITTEN).tests_for("a", "m", 1, peer="b")) == {"a"}
    assert KnownTests().tests_for("a", "m", 1, peer="b") == {}
    assert KnownTests(WRITTEN).why_none("m") == ""


def test_a_model_whose_answers_come_from_the_response_cache_has_none() -> None:
    """Triton would answer without computing, also where the model is broken."""
    keeping = {**CONFIG, "response_cache": {"enable": True}}
    known = KnownTests(WRITTEN, cached=True)
    known.learn("m", keeping)
    assert source(known) == ""
    assert "response cache" in known.why_none("m")
    known.learn("m", {**CONFIG, "response_cache": {"enable": False}})
    assert source(known) == FILE
    without = KnownTests(WRITTEN)
    without.learn("m", keeping)
    assert source(without) == FILE
