"""How many copies of Python models a server starts."""

import pytest

from tarn.interfaces.lint import Config, Entry, Kind, Model
from tarn.triton.lint import Stubs, pbtxt, stubs


def model(text, *files):
    entries = tuple(Entry(f"m/{file}", Kind.FILE) for file in files)
    return Model("m", entries, Config("m/config.pbtxt", pbtxt.read(text)))


@pytest.mark.parametrize(
    ("groups", "fixed", "per_gpu"),
    [
        ("", 0, 1),
        ("instance_group { count: 4 }", 0, 4),
        ("instance_group { kind: KIND_CPU count: 4 }", 4, 0),
        ("instance_group { kind: KIND_MODEL }", 1, 0),
        ("instance_group { kind: KIND_GPU count: 2 gpus: [0, 3] }", 4, 0),
        ("instance_group [{ count: 2 }, { kind: KIND_CPU }]", 1, 2),
        ("instance_group { count: -3 }", 0, 1),
    ],
)
def test_copies_of_one_model(groups, fixed, per_gpu):
    """For each GPU, unless the group names its places."""
    (found,) = stubs([model(f'backend: "python" {groups}')])
    assert found == Stubs("m", fixed, per_gpu)
    assert found.on(0) == fixed + per_gpu
    assert found.on(8) == fixed + 8 * per_gpu


def test_other_back_ends_and_ensembles_have_none():
    """They take no shared memory."""
    other = model('backend: "onnxruntime"')
    ensemble = model('backend: "python" ensemble_scheduling { step [] }')
    assert list(stubs([other, ensemble])) == []
