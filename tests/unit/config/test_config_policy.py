"""Which policy decides, where nobody named one."""

import pytest

from tarn import config

_MODELS = {"name": "f", "models": "/m"}


def policy(**spec: object) -> tuple[str, object]:
    """Return the policy's name and options in a spec of *spec*."""
    scaling = config.load({**_MODELS, **spec}, environ={}).spec.scaling
    return scaling.use, scaling.options


@pytest.mark.parametrize(
    ("replicas", "use"),
    [
        ({"min": 1, "max": 8}, "target"),
        ({"min": 2}, "target"),
        ({"max": 3}, "target"),
        ({"min": 3, "max": 3}, "fixed"),
        ({"max": 1}, "fixed"),
        ({"initial": 3}, "fixed"),
        ({}, "fixed"),
    ],
)
def test_bounds_that_leave_room_mean_target(replicas: dict[str, int], use: str) -> None:
    """Bounds that nobody wrote mean nothing: `tarn scale` alone moves the size."""
    assert policy(replicas=replicas) == (use, {})


def test_what_is_named_is_kept() -> None:
    """Bounds choose no policy where the spec names one."""
    assert policy(replicas={"max": 8}, scaling="fixed") == ("fixed", {})


def test_options_without_a_name_are_those_of_the_policy_that_bounds_mean() -> None:
    """They were lost where the name came from somewhere else than they."""
    chosen = policy(replicas={"max": 8}, scaling={"options": {"target": 2}})
    assert chosen == ("target", {"target": 2})


def test_where_the_name_came_from_is_told() -> None:
    """`tarn config explain` shows it."""
    loaded = config.load({**_MODELS, "replicas": {"max": 8}}, environ={})
    assert loaded.origins["scaling.use"] == "replicas.min is below replicas.max"
