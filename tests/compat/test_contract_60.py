"""60: the Java TARN never had a metric of a GPU, though its documents promise three."""

import threading
import time

from fake_master import instance, snapshot

from tarn.clock import SystemClock
from tarn.control.scrape import ProbeTarget, Scraper
from tarn.read.metrics import render_metrics
from tarn.testing.fake_triton import FakeTriton


def test_each_gpu_of_each_instance_has_its_series() -> None:
    """From what Triton writes to what Prometheus reads, under the promised names."""
    seen = threading.Event()
    scraper = Scraper(SystemClock(), 0.05, 2.0, seen.set)
    scraper.start()
    try:
        with FakeTriton("echo") as triton:
            triton.state.gpus = {"GPU-a": (0.5, 8 << 30, 16 << 30), "GPU-b": (0.25, 0, 16 << 30)}
            scraper.watch({"llama-0001": ProbeTarget(triton.endpoint)})
            end_s = time.monotonic() + 10
            text = ""
            while "tarn_gpu" not in text and time.monotonic() < end_s:
                seen.wait(0.05)
                some = snapshot(instance(1), readings=scraper.readings())
                text = render_metrics(some).decode()
    finally:
        scraper.close()
    labels = 'container_id="40001",host="127.0.0.1"'
    assert f'\ntarn_gpu_utilization{{{labels},gpu="GPU-a"}} 0.5\n' in text
    assert f'\ntarn_gpu_utilization{{{labels},gpu="GPU-b"}} 0.25\n' in text
    for name in ("tarn_gpu_memory_used", "tarn_gpu_memory_used_bytes"):
        assert f'\n{name}{{{labels},gpu="GPU-a"}} {8 << 30}\n' in text
    assert f'\ntarn_gpu_memory_total_bytes{{{labels},gpu="GPU-b"}} {16 << 30}\n' in text
    assert 'gpu="all"' not in text
