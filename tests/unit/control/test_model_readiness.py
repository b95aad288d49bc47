"""Models that say themselves whether they are ready, asked of Tritons that can tell."""

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from tarn.control import model_readiness
from tarn.control.http1 import Reply
from tarn.control.model_readiness import answers_for_models
from tarn.control.scrape import ProbeTarget, Scraper
from tarn.domain import Known, ModelState, Reading
from tarn.domain.reading import NOT_READY
from tarn.domain.serving import ReadinessRule
from tarn.domain.spec import ModelsSpec
from tarn.testing.fake_triton import FakeModel, FakeTriton
from tarn.triton.restricted import Keys

DEADLINE_S = 10.0
NEW, OLD = "2.67.0", "2.51.0"


class SystemClock:
    def now_s(self) -> float:
        return time.monotonic()

    def at(self) -> float:
        return time.time()


@contextmanager
def watching(target: ProbeTarget) -> Iterator[Scraper]:
    scraper = Scraper(SystemClock(), 0.02, 2.0, lambda: None)
    scraper.start()
    try:
        scraper.watch({"a": target})
        yield scraper
    finally:
        scraper.close()
    assert scraper.crashes == 0


def until(scraper: Scraper, holds: Callable[[Reading], bool]) -> Reading:
    end_s, pause = time.monotonic() + DEADLINE_S, threading.Event()
    while time.monotonic() < end_s:
        reading = scraper.readings().get("a")
        if reading is not None and holds(reading):
            return reading
        pause.wait(0.002)
    raise AssertionError(f"not seen: {scraper.readings()}")


def states(reading: Reading) -> dict[str, str]:
    return {m.name: m.state for m in reading.models.value} if is_known(reading) else {}


def is_known(reading: Reading) -> bool:
    return isinstance(reading.models, Known)


def asked(triton: FakeTriton) -> list[str]:
    return [path for _, path, _ in triton.requests if path.endswith("/ready")]


def test_a_model_that_says_that_it_is_not_ready_is_not_served_until_it_is() -> None:
    """The index goes on saying READY; the other model serves meanwhile."""
    with (
        FakeTriton("llm", "ocr", version=NEW) as triton,
        watching(ProbeTarget(triton.endpoint)) as scraper,
    ):
        until(scraper, lambda r: states(r) == {"llm": "READY", "ocr": "READY"})
        triton.model("llm").says_ready = False
        reading = until(scraper, lambda r: states(r).get("llm") == "UNAVAILABLE")
        assert isinstance(reading.models, Known)
        assert reading.models.value == (
            ModelState("llm", "UNAVAILABLE", NOT_READY),
            ModelState("ocr", "READY", versions=("1",)),
        )
        assert ReadinessRule(ModelsSpec("/m"))(reading).serves
        judged = ReadinessRule(ModelsSpec("/m", require="all"))(reading)
        assert (judged.serves, judged.blamed) == (False, "llm")
        assert "says that it is not ready" in judged.why
        triton.model("llm").says_ready = True
        until(scraper, lambda r: states(r) == {"llm": "READY", "ocr": "READY"})


def test_an_older_triton_is_believed_by_its_index() -> None:
    """Its answer would only repeat what the index says, at a request for each model."""
    with (
        FakeTriton(FakeModel("llm"), version=OLD) as triton,
        watching(ProbeTarget(triton.endpoint)) as scraper,
    ):
        triton.model("llm").says_ready = False
        until(scraper, lambda r: states(r) == {"llm": "READY"})
        looks = triton.looks
        until(scraper, lambda _: triton.looks > looks + 40)
        assert states(scraper.readings()["a"]) == {"llm": "READY"}
        assert asked(triton) == []


def test_the_key_of_the_health_api_is_sent() -> None:
    """``triton.restricted`` may name ``health``."""
    with FakeTriton("llm", version=NEW) as triton:
        triton.state.restricted = {"health": ("tarn-key", "s3cret")}
        triton.model("llm").says_ready = False
        keys = Keys((("health", "tarn-key", "s3cret"),))
        with watching(ProbeTarget(triton.endpoint, keys=keys)) as scraper:
            until(scraper, lambda r: states(r) == {"llm": "UNAVAILABLE"})


def test_an_unloaded_model_is_not_asked_and_comes_back_as_ready() -> None:
    """What it said before it was unloaded does not count."""
    with (
        FakeTriton("llm", "ocr", version=NEW) as triton,
        watching(ProbeTarget(triton.endpoint)) as scraper,
    ):
        model = triton.model("llm")
        model.says_ready = False
        until(scraper, lambda r: states(r).get("llm") == "UNAVAILABLE")
        model.state, model.reason = "UNAVAILABLE", "unloaded"
        until(scraper, lambda r: any(m.reason == "unloaded" for m in listed(r)))
        model.state, model.reason, model.says_ready = "READY", "", True
        until(scraper, lambda r: states(r) == {"llm": "READY", "ocr": "READY"})


def listed(reading: Reading) -> tuple[ModelState, ...]:
    return reading.models.value if isinstance(reading.models, Known) else ()


def test_many_models_are_asked_in_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    """One round asks a few; the last one is asked, too."""
    monkeypatch.setattr(model_readiness, "MOST_A_ROUND", 2)
    names = [f"m{number}" for number in range(5)]
    with (
        FakeTriton(*names, version=NEW) as triton,
        watching(ProbeTarget(triton.endpoint)) as scraper,
    ):
        triton.model("m4").says_ready = False
        until(scraper, lambda r: states(r).get("m4") == "UNAVAILABLE")
        assert {path.split("/")[3] for path in asked(triton)} == set(names)


@pytest.mark.parametrize(
    ("body", "asks"),
    [
        ({"version": "2.64.0"}, True),
        ({"version": "2.68.0dev"}, True),
        ({"version": "3.0.0"}, True),
        ({"version": "2.63.0"}, False),
        ({"version": "2"}, False),
        ({"version": "new"}, False),
        ({}, False),
        ([], False),
    ],
)
def test_only_a_version_that_is_known_to_ask_is_asked(body: object, *, asks: bool) -> None:
    """25.12 is 2.64; what cannot be read is an old one."""
    assert answers_for_models(Reply(200, json.dumps(body).encode(), keep=True)) is asks
    assert not answers_for_models(Reply(200, b"no json", keep=True))
