"""A real ensemble: in flight is what was asked, and nothing is soon after the last answer."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from asking import ask
from house import until
from servers.triton import CONFIG, NAP, Clock, infer_body, needed, real_triton

from tarn.control.scrape import ProbeTarget, Scraper
from tarn.domain import Known

pytestmark = needed

PARTS = ("one", "two", "three")
EACH_S = 0.4
ASKED = 6
LOOK_S = 0.25
ENSEMBLE = """platform: "ensemble"
max_batch_size: 0
input [{name: "IN" data_type: TYPE_FP32 dims: [-1]}]
output [{name: "OUT" data_type: TYPE_FP32 dims: [-1]}]
ensemble_scheduling { step [
  {model_name: "one" model_version: -1
   input_map {key: "IN" value: "IN"} output_map {key: "OUT" value: "a"}},
  {model_name: "two" model_version: -1
   input_map {key: "IN" value: "a"} output_map {key: "OUT" value: "b"}},
  {model_name: "three" model_version: -1
   input_map {key: "IN" value: "b"} output_map {key: "OUT" value: "OUT"}}
]}
"""


@pytest.mark.timeout(120)
def test_an_ensemble_and_its_parts_are_not_added(tmp_path: Path) -> None:
    """Six requests at three parts of one instance each; then quiet within three parts' time."""
    for name in PARTS:
        (tmp_path / "models" / name / "1").mkdir(parents=True)
        (tmp_path / "models" / name / "config.pbtxt").write_text(CONFIG)
        (tmp_path / "models" / name / "1" / "model.py").write_text(NAP)
    (tmp_path / "models" / "all" / "1").mkdir(parents=True)
    (tmp_path / "models" / "all" / "config.pbtxt").write_text(ENSEMBLE)
    with real_triton(tmp_path, 5) as (_, endpoint):
        scraper = Scraper(Clock(), LOOK_S, 2.0, lambda: None)
        scraper.start()

        def busy() -> float | None:
            reading = scraper.readings().get("a")
            busy = None if reading is None else reading.busy
            return busy.value if isinstance(busy, Known) else None

        def infer(_: int) -> int:
            body = infer_body(EACH_S)
            return ask(endpoint.http_port, "POST", "/v2/models/all/infer", body)[0]

        try:
            scraper.watch({"a": ProbeTarget(endpoint)})
            until(lambda: busy() == 0, 20, "a quiet Triton")
            seen: list[float] = []
            with ThreadPoolExecutor(ASKED) as pool:
                answers = [pool.submit(infer, n) for n in range(ASKED)]
                pause = threading.Event()
                while not all(answer.done() for answer in answers):
                    seen.append(busy() or 0.0)
                    pause.wait(LOOK_S)
            over_s = time.monotonic()
            assert [answer.result() for answer in answers] == [200] * ASKED
            # the ends of two requests may lie in the time of one; 12 or more before
            assert 1 <= max(seen) < ASKED * 2
            until(lambda: busy() == 0, 20, lambda: f"quiet; busy is {busy()}")
            # three parts' time, three times; an ensemble's own mean would make it 6 s and more
            assert time.monotonic() - over_s < 3 * len(PARTS) * EACH_S + 4 * LOOK_S
        finally:
            scraper.close()
