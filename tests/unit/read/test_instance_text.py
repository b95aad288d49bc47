"""The text of instances is used again where nothing changed, and only there."""

from typing import Any

import attrs
from fake_master import instance, reading, snapshot
from hypothesis import given
from hypothesis import strategies as st

from tarn.domain import Endpoint, Instance, Reading
from tarn.read.metrics import InstanceText, render_metrics
from tarn.read.snapshot import Snapshot

GPUS = ("gpu_utilization", 'gpu_utilization{gpu="GPU-1"}', 'gpu_memory_used_bytes{gpu="GPU-é"}')

values = st.sampled_from([0.0, 1.0, 2.5, float("nan"), float("inf")])
metrics = st.dictionaries(st.sampled_from(["pending", "executing", *GPUS]), values)
changes: st.SearchStrategy[dict[str, Any]] = st.fixed_dictionaries(
    {},
    optional={
        "container_id": st.sampled_from(["c1", 'c"2', None]),
        "endpoint": st.sampled_from([Endpoint("h", 1, 2, 3), None]),
        "node": st.sampled_from(["a", "b"]),
        "ready_s": st.sampled_from([900.0, 901.5, None]),
        "spec_hash": st.sampled_from(["new", "old"]),
    },
)


@st.composite
def pictures(draw: st.DrawFn) -> Snapshot:
    numbers = draw(st.sets(st.integers(1, 4)))
    fleet = tuple(instance(number, **draw(changes)) for number in sorted(numbers))
    read = {i.id: reading(i.number, **draw(metrics)) for i in fleet if draw(st.booleans())}
    return attrs.evolve(snapshot(*fleet), readings=read)


@given(some=st.lists(pictures(), min_size=1, max_size=6), openmetrics=st.booleans())
def test_what_is_kept_makes_the_text_that_a_first_rendering_makes(
    some: list[Snapshot], openmetrics: bool
) -> None:
    """Whatever changes, comes or goes between two snapshots, and in whatever format."""
    kept = InstanceText()
    for number, picture in enumerate(some):
        opened = openmetrics is (number % 2 == 0)
        text = render_metrics(picture, kept, openmetrics=opened)
        assert text == render_metrics(picture, openmetrics=opened)


def test_the_lines_of_an_instance_are_not_written_again_when_its_values_are_the_same() -> None:
    """A newer reading alone is no change."""
    kept = InstanceText()

    def lines(of: Instance, read: Reading) -> tuple[str, ...]:
        kept.render(attrs.evolve(snapshot(of), readings={of.id: read}), openmetrics=False)
        return kept._rendered[of.id].text

    first = lines(instance(1), reading(1, pending=3.0))
    later = attrs.evolve(reading(1, pending=3.0), taken_s=2000.0)
    assert lines(instance(1, busy=instance(2).busy), later) is first
    other = lines(instance(1), reading(1, pending=4.0))
    assert [now for now, was in zip(other, first, strict=True) if now is not was] == [
        'tarn_container_queue_depth{container_id="40001",host="127.0.0.1"} 4\n',
        'tarn_container_load{container_id="40001",host="127.0.0.1"} 0.25\n',
    ]
