"""A Triton that writes what it likes into its metrics: nothing here grows without end."""

import resource
import threading
import time

from fake_master import instance, snapshot
from house import until
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from tarn.clock import SystemClock
from tarn.control.probe import _index
from tarn.control.scrape import ProbeTarget, Scraper
from tarn.domain import Known, ModelState, Sample, Unknown
from tarn.domain.model_totals import MOST_MODELS, OTHER, ModelTotalsHistory
from tarn.read.metrics import render_metrics
from tarn.testing.fake_triton import FakeTriton
from tarn.triton.control import MOST_BYTES
from tarn_plugins.signals.latency_p95 import _count_of, _kept_count_of

SUCCESS = "nv_inference_request_success"
MANY = 3000


def hostile() -> bytes:
    """Thousands of models, among them names that try to end a label, a line, or the text."""
    odd = [r"a\"} 1\n# EOF\n", r"b\\", "# HELP x", "x" * 5000, r"\n\n", "{}", "_other", "é模"]
    names = [*odd, *(f"m{number}" for number in range(MANY))]
    lines = [f'{SUCCESS}{{model="{name}",version="1"}} 1\n' for name in names]
    lines.append('nv_gpu_utilization{gpu_uuid="g\\"} 9\\n"} 0.5\n')
    return "".join(lines).encode()


def test_many_and_odd_names_become_few_and_whole_series() -> None:
    """From the socket to the text: bounded, escaped, and read back by a strict parser."""
    woken = threading.Event()
    scraper = Scraper(SystemClock(), 0.05, 2.0, woken.set)
    scraper.start()
    try:
        with FakeTriton("echo") as triton:
            triton.state.metrics = hostile()
            scraper.watch({"llama-0001": ProbeTarget(triton.endpoint)})
            end_s = time.monotonic() + 10
            while time.monotonic() < end_s:
                woken.wait(0.05)
                readings = scraper.readings()
                if readings.get("llama-0001") and readings["llama-0001"].metrics:
                    break
            totals, others = scraper.model_totals()
    finally:
        scraper.close()
    assert scraper.crashes == 0
    assert len(totals) == MOST_MODELS + 1
    assert others == MANY + 8 - MOST_MODELS
    looks = ModelTotalsHistory().looked(1.0, totals, others)
    some = snapshot(instance(1), models=looks, readings=readings)
    families = list(text_string_to_metric_families(render_metrics(some, openmetrics=True).decode()))
    named = {s.labels["model"] for f in families for s in f.samples if "model" in s.labels}
    assert {'a"} 1\n# EOF\n', "b\\", "# HELP x", "\n\n", "{}", "é模", OTHER} <= named
    assert max(map(len, named)) < 256
    (ended,) = [f for f in families if f.name == "tarn_inference_requests"]
    assert sum(sample.value for sample in ended.samples) == MANY + 8


def test_an_index_that_grows_and_changes_is_not_kept() -> None:
    """Equal instances share what was read of one; what is too long is told and never held."""
    scraper = Scraper(SystemClock(), 0.02, 5.0, lambda: None)
    scraper.start()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    try:
        with FakeTriton("echo") as triton:
            model = triton.state.models["echo"]
            scraper.watch({"llama-0001": ProbeTarget(triton.endpoint)})
            until(lambda: isinstance(models(scraper), Known), 10, "a look")
            for number in range(2 * _index.cache_info().maxsize):
                reason = f"{number}" * 50_000
                model.state, model.reason = "UNAVAILABLE", reason
                shown = f"{reason[:4096]} …"
                until(lambda text=shown: reasons(scraper) == [text], 10, "the next index")
            assert _index.cache_info().currsize <= 16
            model.reason = "x" * (MOST_BYTES + 1)
            until(lambda: isinstance(models(scraper), Unknown), 10, "an index that is too long")
            said = models(scraper).reason
    finally:
        scraper.close()
    assert f"more than the {MOST_BYTES} that are read" in said
    assert scraper.crashes == 0
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 200 * 1024


def models(scraper: Scraper) -> Sample[tuple[ModelState, ...]]:
    reading = scraper.readings().get("llama-0001")
    return Unknown("not yet") if reading is None else reading.models


def reasons(scraper: Scraper) -> list[str]:
    found = models(scraper)
    return [model.reason for model in found.value] if isinstance(found, Known) else []


def test_a_line_of_a_label_that_is_too_long_is_read_and_not_kept() -> None:
    """One that changes at each scrape would fill the memory."""
    before = _kept_count_of.cache_info().currsize
    name = f'nv_inference_request_summary_us{{model="{"x" * 5000}",quantile="0.95"}}'
    assert _count_of(name) == f'nv_inference_request_summary_us_count{{model="{"x" * 5000}"}}'
    assert _kept_count_of.cache_info().currsize == before
