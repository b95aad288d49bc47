"""59: the Java TARN repeated HELP and TYPE for each container, which no parser accepts."""

from fake_master import instance, reading, snapshot
from prometheus_client.parser import text_string_to_metric_families

from tarn.read.metrics import render_metrics


def test_the_text_of_three_instances_is_read_back_whole() -> None:
    """Each family once, with a sample for each instance."""
    numbers = (1, 2, 3)
    said = {f"llama-{n:04d}": reading(n, pending=float(n), executing=1.0) for n in numbers}
    picture = snapshot(*(instance(n) for n in numbers), readings=said)
    text = render_metrics(picture).decode()
    families = list(text_string_to_metric_families(text))
    names = [family.name for family in families]
    assert len(names) == len(set(names))
    assert text.count("# TYPE tarn_container_queue_depth ") == 1
    (depths,) = [f for f in families if f.name == "tarn_container_queue_depth"]
    assert [sample.value for sample in depths.samples] == [1.0, 2.0, 3.0]
