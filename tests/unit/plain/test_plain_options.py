"""A settings class as people see it."""

from pathlib import Path

import attrs
import pytest
from attrs.validators import ge, gt, in_, le, optional

from tarn.plain import REQUIRED, Option, options


@attrs.frozen
class Settings:
    """Every kind of field."""

    place: Path
    """Where
    it lies."""
    window_s: float = attrs.field(default=90.0, validator=gt(0))
    memory_mib: int = 512
    share: float = attrs.field(default=0.5, validator=[ge(0), le(1)])
    count: int | None = attrs.field(default=None, validator=optional(ge(1)))
    mode: str = attrs.field(default="min", validator=in_(("min", "max")))
    loud: bool = False
    names: tuple[str, ...] = ()
    limits: dict[str, int] = attrs.field(factory=dict)


@pytest.mark.parametrize(
    "expected",
    [
        Option("place", "text", REQUIRED, "Where it lies."),
        Option("window", "a duration, such as 10m", "90s", "(more than 0s)"),
        Option("memory", "an amount of memory, such as 512MiB", "512MiB", ""),
        Option("share", "number >= 0 and <= 1", 0.5, ""),
        Option("count", "integer >= 1, or null", None, ""),
        Option("mode", "'min' or 'max'", "min", ""),
        Option("loud", "true or false", False, ""),
        Option("names", "list", [], ""),
        Option("limits", "mapping", {}, ""),
    ],
    ids=lambda option: option.key,
)
def test_an_option_is_shown_as_it_is_written(expected: Option) -> None:
    """Key without the unit, kind with the unit and bounds, default with the unit, the line."""
    assert expected in options(Settings)


def test_the_options_come_in_the_order_of_the_class() -> None:
    """Whoever wrote it put what matters first."""
    assert [o.key for o in options(Settings)][:3] == ["place", "window", "memory"]
