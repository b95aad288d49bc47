"""11: the Java TARN's queue depth kept counting containers that were gone."""

from fake_master import instance, reading, snapshot

from tarn.read.metrics import render_metrics


def test_the_queue_of_a_dead_instance_is_not_counted() -> None:
    """What was scraped of it last may still lie about."""
    said = {"llama-0001": reading(1, pending=2.0), "llama-0009": reading(9, pending=50.0)}
    text = render_metrics(snapshot(instance(1), readings=said)).decode()
    assert "\ntarn_queue_depth_total 2\n" in text
    assert "llama-0009" not in text
