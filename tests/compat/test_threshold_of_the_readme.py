"""The README's command line of the Java TARN, from its words to the decisions that it leads to."""

from pathlib import Path
from typing import Any

from compat.golden import FOLDER, MEANS
from unit.tarn_plugins.scaling.views import view

from tarn import config, plugins
from tarn.config import compat
from tarn.domain import Unknown
from tarn.errors import ConfigErrors
from tarn.testing.context import master_context

SILENT = Unknown("no nv_gpu_utilization")


def given() -> dict[str, Any]:
    """Return the options of the README's long example, as its own parser read them."""
    command = (FOLDER / "guide-everything.txt").read_text("utf-8").partition(MEANS)[0]
    return dict(compat.read_command(compat.split_command(command)).options)


def test_everything_that_it_asks_for_is_of_this_version() -> None:
    """Held against the installed plugins, nothing is refused but what has no modules here."""
    start = {"name": "w", "runtime": "yarn"}
    try:
        config.load(start, aliases=given(), environ={}, plugins=plugins.load())
    except ConfigErrors as refused:
        told = [str(error) for error in refused.errors]
        assert all("not installed here" in one for one in told), told
    spec = config.load(start, aliases=given(), environ={}).spec
    assert spec.scaling.use == "threshold"
    assert [store.use for store in spec.secrets] == ["jceks"]


def test_its_policy_decides_by_its_marks(tmp_path: Path) -> None:
    """Up beyond 0.8, down below 0.2, sixteen queued are full: the formulas of the contract."""
    spec = config.load({"name": "w"}, aliases=given(), environ={}).spec
    assert (spec.replicas.min, spec.replicas.max, spec.scaling.cooldown_s) == (2, 8, 120.0)
    assert spec.scaling.down.window_s == 120.0, "one fewer in each cooldown"
    offered = plugins.load()
    factory = offered.choose("scaling", spec.scaling.use, "scaling.use")
    settings = offered.settings(factory, spec.scaling.options, "scaling.options")
    policy = factory.create(settings, master_context(tmp_path, spec=spec))
    assert (settings.mode, settings.queue_capacity) == ("composite", 16)
    table = [
        # GPU, queued, size before, size wanted
        (0.81, 0, 4, 5),
        (0.80, 0, 4, 4),
        (0.20, 0, 4, 4),
        (0.19, 0, 4, 3),
        (0.10, 52, 4, 5),
        (0.10, 51, 4, 4),
        (0.10, 12, 4, 3),
        (0.10, 13, 4, 4),
        (0.90, 160, 4, 10),
    ]
    for gpu, queued, size, wanted in table:
        fleet = view(size, gpu_utilization=gpu, pending=queued, in_flight=queued)
        assert policy.wanted(fleet).replicas == wanted, (gpu, queued)
    blind = view(4, gpu_utilization=SILENT, pending=SILENT)
    assert policy.wanted(blind).replicas is None
    assert policy.wanted(view(0, waiting=1)).replicas == 1
