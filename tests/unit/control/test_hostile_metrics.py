"""A Triton that writes what it likes into its metrics: nothing here grows without end."""

import threading
import time

from fake_master import instance, snapshot
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from tarn.clock import SystemClock
from tarn.control.metrics import render_metrics
from tarn.control.scrape import Scraper, Target
from tarn.domain.model_totals import MOST_MODELS, OTHER, ModelLooks
from tarn.testing.fake_triton import FakeTriton

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
            scraper.watch({"llama-0001": Target(triton.endpoint)})
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
    looks = ModelLooks().looked(1.0, totals, others)
    some = snapshot(instance(1), models=looks, readings=readings)
    families = list(text_string_to_metric_families(render_metrics(some, openmetrics=True).decode()))
    named = {s.labels["model"] for f in families for s in f.samples if "model" in s.labels}
    assert {'a"} 1\n# EOF\n', "b\\", "# HELP x", "\n\n", "{}", "é模", OTHER} <= named
    assert max(map(len, named)) < 256
    (ended,) = [f for f in families if f.name == "tarn_inference_requests"]
    assert sum(sample.value for sample in ended.samples) == MANY + 8
