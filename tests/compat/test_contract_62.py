"""62: the Java TARN's counters fell, since they counted only the last hundred alerts."""

import re

from fake_master import EPOCH, instance, reading, snapshot

from tarn.domain.fleet import Fleet
from tarn.read.metrics import render_metrics


def test_a_counter_never_falls_over_a_thousand_events() -> None:
    """Though only the newest are kept."""
    fleet = Fleet("llama", EPOCH, 1)
    for number in range(1000):
        fleet = fleet.note(float(number), "TARN-1105", f"llama-{number:04d}", "it ended")
        assert fleet.event_totals["TARN-1105"] == number + 1
    assert len(fleet.events) < 1000


def test_what_ends_in_total_is_a_counter_but_for_the_name_that_sites_rely_on() -> None:
    """``tarn_queue_depth_total`` has no type: it falls, and is beside an honest twin."""
    said = {"llama-0001": reading(1, pending=2.0)}
    picture = snapshot(instance(1), readings=said, event_totals={"TARN-1105": 3})
    text = render_metrics(picture).decode()
    kinds = dict(re.findall(r"^# TYPE (\S+) (\S+)$", text, re.MULTILINE))
    totals = {name: kind for name, kind in kinds.items() if name.endswith("_total")}
    assert totals.pop("tarn_queue_depth_total") == "untyped"
    assert kinds["tarn_queue_depth"] == "gauge"
    assert set(totals.values()) == {"counter"}
