"""The page about policies: its specs are right, its tables are whole, and its reasons are given."""

import re
from collections.abc import Iterator
from datetime import datetime
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import attrs
import pytest
import yaml
from unit.tarn_plugins.scaling.views import history, view

from tarn import config, plugins
from tarn.control.policy import scaling
from tarn.domain import FleetView, Limits
from tarn.plain import options
from tarn.testing.context import master_context

PAGE = Path(__file__).parents[2] / "docs/how-to/choose-a-policy.md"
TEXT = PAGE.read_text("utf-8")
OFFERED = plugins.load()
SITUATION = re.compile(
    r"(?P<size>\d+) replicas?(?:, (?P<ready>\d+) ready)?(?:, (?P<waiting>\d+) waiting)?"
    r"(?P<signals>(?:, [a-z]\w+ [0-9.]+)*)(?:, for (?P<seconds>\d+) s)?(?:, at (?P<at>[-0-9: ]+))?"
)


def blocks(*languages: str) -> Iterator[tuple[str, str]]:
    """Yield (language, content) of the fenced blocks in *languages*, in their order."""
    for language, content in re.findall(r"^```(\w+)\n(.*?)^```", TEXT, re.MULTILINE | re.DOTALL):
        if language in languages:
            yield language, content


def spec(content: str) -> config.LoadedSpec:
    """Return the spec of a block, held against the installed plugins."""
    plain = {"name": "w", "models": "/models", **yaml.safe_load(content)}
    return config.load(plain, environ={}, plugins=OFFERED)


def seen(line: str, limits: Limits) -> FleetView:
    """Return the fleet that a line of the page describes."""
    said = SITUATION.fullmatch(line)
    assert said is not None, line
    signals = dict(pair.split(" ") for pair in said["signals"].split(", ")[1:])
    fleet = view(
        int(said["size"]),
        None if said["ready"] is None else int(said["ready"]),
        waiting=int(said["waiting"] or 0),
        limits=limits,
    )
    samples = int(said["seconds"] or 0) + 1
    fleet = history(fleet, **{name: (float(value),) * samples for name, value in signals.items()})
    at = datetime.fromisoformat(said["at"] or "2026-06-01 00:00")
    return attrs.evolve(fleet, at=at.replace(tzinfo=ZoneInfo("Europe/Paris")).timestamp())


def examples() -> Iterator[tuple[str, str, str]]:
    """Yield (spec, situation, reason)."""
    above = ""
    for language, content in blocks("yaml", "text"):
        if language == "yaml":
            above = content
            continue
        lines = content.splitlines()
        for situation, reason in zip(lines[::2], lines[1::2], strict=True):
            yield above, situation, reason.strip()


def needs_more(content: str) -> Any:
    """Return a mark where the extra of a policy is not installed."""
    lacking = "use: schedule" in content and find_spec("cronsim") is None
    return pytest.mark.skipif(lacking, reason="pip install 'tarn-orchestrator[schedule]'")


@pytest.mark.parametrize(
    "content", [pytest.param(text, marks=needs_more(text)) for _, text in blocks("yaml")]
)
def test_each_spec_of_the_page_is_right(content: str) -> None:
    """A reader may copy it."""
    assert spec(content).spec.scaling.use in OFFERED.scaling_policies


@pytest.mark.parametrize(
    ("content", "situation", "reason"),
    [pytest.param(*each, marks=needs_more(each[0]), id=each[1]) for each in examples()],
)
def test_each_reason_of_the_page_is_what_the_policy_says(
    tmp_path: Path, content: str, situation: str, reason: str
) -> None:
    """Word for word, with the options that stand above it."""
    loaded = spec(content).spec
    policy = scaling(OFFERED, master_context(tmp_path, spec=loaded)).policy
    limits = Limits(loaded.replicas.min, loaded.replicas.max)
    assert policy.wanted(seen(situation, limits)).reason == reason


@pytest.mark.parametrize("name", ["target", "latency", "threshold", "schedule"])
def test_each_option_has_its_line(name: str) -> None:
    """In the order of the settings, with its default."""
    section = TEXT.partition(f"## {name}\n")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| `(\w+)` \| `?([^|`]+)`? \|", section, re.MULTILINE)
    ours = [(each.key, each.default) for each in options(OFFERED.scaling_policies[name].settings)]
    assert [key for key, _ in rows] == [key for key, _ in ours]
    for (key, written), (_, default) in zip(rows, ours, strict=True):
        if key != "inner":
            assert yaml.safe_load(written) == default, key


def test_every_policy_that_is_offered_is_on_the_page() -> None:
    """A reader chooses among all of them."""
    assert [name for name in OFFERED.scaling_policies if f"\n## {name}\n" not in TEXT] == []
