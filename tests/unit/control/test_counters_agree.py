"""Whoever asks what ended in a second is told one number, whatever a Triton's counters did."""

import attrs
from fake_master import instance, snapshot
from house import until

from tarn.clock import SystemClock
from tarn.control.scrape import ProbeTarget, Scraper, WarmupRequest
from tarn.domain import Known
from tarn.domain.draining import DrainProgress
from tarn.domain.history import COLUMNS, FleetHistory
from tarn.domain.model_totals import ModelTotalsHistory
from tarn.domain.outcomes import OutcomeHistory
from tarn.domain.signals import Signals
from tarn.domain.usage import INSTANCE, MODEL, FleetUsage
from tarn.read.retained_history import history_sample, usage_sample
from tarn.testing.fake_triton import FakeTriton

ID = "llama-0001"
AT = 1_764_201_600.0


class Looks:
    """Looks a second apart, in the eyes of everybody who counts."""

    def __init__(self) -> None:
        self.history, self.usage, self.outcomes = FleetHistory(), FleetUsage(), OutcomeHistory()
        self.signals, self.drain, self.models = Signals(), DrainProgress(), ModelTotalsHistory()
        self.looks = 0

    def look(self, scraper: Scraper) -> None:
        """Show to all of them what was scraped last."""
        now_s = float(self.looks)
        self.looks += 1
        reading = scraper.readings()[ID]
        metrics = {
            name: Known(sample.value) if isinstance(sample, Known) else sample
            for name, sample in reading.metrics.items()
        }
        readings = {ID: attrs.evolve(reading, taken_s=now_s, metrics=metrics)}
        self.models = self.models.looked(now_s, *scraper.model_totals())
        adopted = instance(1, adopted=True)
        some = snapshot(adopted, at=AT + now_s, readings=readings, models=self.models)
        sample = history_sample(some)
        self.history = self.history.looked(sample)
        self.usage = self.usage.looked(usage_sample(some, sample, 0))
        self.signals = self.signals.looked([adopted], readings, now_s, 60.0)
        self.drain = self.drain.looked(readings[ID])
        self.outcomes = self.outcomes.looked(readings, now_s, 30.0)

    def ended(self) -> dict[str, float | None]:
        """Return how many requests ended well between two looks, as each of them tells it."""
        (row,) = self.history.grains[0].since(0.0)
        rates = self.signals.history["requests_per_s"][-1][1]
        spent = self.usage.total(AT, AT + 1).spent
        outcomes = [self.outcomes.since(0, ID, model) for model in ("echo", "other")]
        return {
            "history": row[COLUMNS.index("requests_per_s")],
            "metrics": sum(self.models.rates(m).requests_per_s or 0.0 for m in ("echo", "other")),
            "signals": rates.value if isinstance(rates, Known) else None,
            "drain": self.drain.succeeded,
            "outcomes": sum(one.completed for one in outcomes if one is not None),
            "usage": spent[INSTANCE, ID].requests,
            "usage of models": sum(spent[MODEL, m].requests for m in ("echo", "other")),
        }


def counts(scraper: Scraper) -> tuple[float, ...]:
    """Return what each model counted, by name."""
    reading = scraper.readings().get(ID)
    outcomes = {} if reading is None else reading.outcomes
    return tuple(one.completed for _, one in sorted(outcomes.items()))


def test_a_model_that_is_loaded_again_shows_one_number_to_all() -> None:
    """Of two models one begins again at 0: three requests for it, and one for the other."""
    scraper = Scraper(SystemClock(), 0.02, 2.0, lambda: None)
    scraper.start()
    try:
        with FakeTriton("echo", "other") as triton:
            echo, other = triton.model("echo"), triton.model("other")
            echo.successes, other.successes = 900, 100
            scraper.watch({ID: ProbeTarget(triton.endpoint, fresh=False)})
            until(lambda: counts(scraper) == (900, 100), 10, "a look")
            looks = Looks()
            looks.look(scraper)
            echo.successes, other.successes = 3, 101
            until(lambda: counts(scraper) == (3, 101), 10, "a look after the reload")
            looks.look(scraper)
    finally:
        scraper.close()
    assert scraper.crashes == 0
    assert looks.ended() == dict.fromkeys(looks.ended(), 4.0)


def test_what_is_looked_at_anew_is_not_counted_anew() -> None:
    """Its warm-up changed, and the Triton is the one that it was."""
    scraper = Scraper(SystemClock(), 0.02, 2.0, lambda: None)
    scraper.start()
    try:
        with FakeTriton("echo", "other") as triton:
            triton.model("echo").successes = 900
            target = ProbeTarget(triton.endpoint)
            scraper.watch({ID: target})
            until(lambda: counts(scraper) == (900, 0), 10, "a look")
            warmup = (WarmupRequest("/v2/models/echo/infer", b'{"inputs": []}'),)
            scraper.watch({ID: attrs.evolve(target, warmup=warmup)})
            until(lambda: counts(scraper) == (901, 0), 10, "its warm-up")
            assert scraper.model_totals()[0]["echo"].counted.completed == 901
            scraper.watch({})
            until(lambda: not scraper.readings(), 10, "its end")
            assert scraper.model_totals()[0]["echo"].counted.completed == 901
    finally:
        scraper.close()
    assert scraper.crashes == 0
