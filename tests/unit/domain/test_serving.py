"""When an instance serves."""

import pytest
from given import reading

from tarn.domain import Known, ModelState, Reading, Unknown
from tarn.domain.serving import ReadinessRule
from tarn.domain.spec import ModelsSpec

OK = ModelState("ok", "READY")
BAD = ModelState("bad", "UNAVAILABLE", "no such file")
LATE = ModelState("late", "LOADING")
IDLE = ModelState("idle", "UNAVAILABLE")


def verdict(*listed: ModelState, **spec: object) -> tuple[bool, str]:
    judge = ReadinessRule(ModelsSpec("/models", **spec))  # type: ignore[arg-type]
    judged = judge(reading(1, models=listed))
    assert judged.models is not None
    return judged.serves, judged.why


@pytest.mark.parametrize(
    ("listed", "serves", "why"),
    [
        ((OK,), True, ""),
        ((BAD, OK), True, ""),
        ((BAD,), False, "model bad is unavailable: no such file"),
        ((LATE, OK), False, "loading model 2 of 2: late"),
        ((BAD, LATE, OK), False, "loading model 3 of 3: late"),
        ((IDLE, OK), False, "loading model 2 of 2: idle"),
        ((), False, "Triton lists no model"),
    ],
)
def test_one_ready_model_serves_once_all_are_settled(
    listed: tuple[ModelState, ...], serves: bool, why: str
) -> None:
    """A bad one beside a good one is tolerated; one still loading is waited for."""
    assert verdict(*listed) == (serves, why)


def test_every_model_must_be_ready_where_all_are_required() -> None:
    """``models.require: all``: one bad model keeps the instance out."""
    assert verdict(OK, require="all") == (True, "")
    refused = (False, "model bad is unavailable: no such file")
    assert verdict(BAD, OK, require="all") == refused


def test_only_the_models_named_in_serve_count() -> None:
    """What else is in the repository may be broken or loading."""
    assert verdict(BAD, LATE, OK, serve=("ok",)) == (True, "")


def test_a_served_model_that_triton_does_not_list_is_unavailable() -> None:
    """It is shown with the reason; with a good one beside it the instance serves."""
    absent = "Triton does not list it: it is not in the repository"
    assert verdict(OK, serve=("nope",)) == (False, f"model nope is unavailable: {absent}")
    judge = ReadinessRule(ModelsSpec("/models", ("ok", "nope")))
    judged = judge(reading(1, models=(OK,)))
    assert judged.serves
    assert judged.models == (("ok", "READY", ""), ("nope", "UNAVAILABLE", absent))


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (Reading("w-0001", 1.0, Unknown("no route")), "no route"),
        (Reading("w-0001", 1.0, Known(value=False)), "Triton says that it is not live"),
        (Reading("w-0001", 1.0, Known(value=True), models=Unknown("garbage")), "garbage"),
    ],
)
def test_what_did_not_answer_does_not_serve_and_shows_no_models(answer: Reading, why: str) -> None:
    """Unknown is not zero: the models that were read before still stand."""
    assert ReadinessRule(ModelsSpec("/models"))(answer) == (False, why, None, "")


def test_an_instance_is_ready_only_after_its_warm_up() -> None:
    """What keeps it cold is said."""
    judge = ReadinessRule(ModelsSpec("/models"))
    assert judge(reading(1, warm=False))[:2] == (False, "warm-up is still running")
    cold = judge(reading(1, warm=False, cold="echo answered 500"))
    assert cold[1] == "warm-up is still running; the last request failed: echo answered 500"


def test_equal_answers_are_judged_once() -> None:
    """Ten thousand instances with one list of models cost one look at it."""
    judge, listed = ReadinessRule(ModelsSpec("/models")), (OK, BAD)
    first = judge(reading(1, models=listed))[2]
    assert judge(reading(2, models=listed))[2] is first


def test_versions_of_equal_answers_are_collected_once() -> None:
    """Not hashed again for each instance, tick after tick."""

    class Counted(tuple[ModelState, ...]):  # noqa: SLOT001 (it counts)
        hashed = 0

        def __hash__(self) -> int:
            Counted.hashed += 1
            return super().__hash__()

    judge, listed = ReadinessRule(ModelsSpec("/models")), Counted((OK, BAD))
    assert judge.versions(reading(1, models=listed)) is judge.versions(reading(2, models=listed))
    assert Counted.hashed == 1
