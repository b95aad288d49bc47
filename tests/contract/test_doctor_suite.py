"""Every check that comes with TARN keeps the contract; what breaks it is caught."""

from collections.abc import Callable, Iterator
from importlib.metadata import entry_points
from pathlib import Path

import attrs
import pytest

from tarn.domain import ClusterSpec
from tarn.errors import LaunchError
from tarn.interfaces import Check, CheckResult, ClientContext, Finding
from tarn.release import DISTRIBUTION
from tarn.testing.contracts import DoctorContract
from tarn_plugins.runtime import yarn

NOBODY = "127.0.0.1:9"
"""Nobody listens there."""
YARN = ({"runtime": {"use": "yarn"}},) if hasattr(yarn, "tarn_doctor_checks") else ()


class BuiltIn:
    """All plugins that come with TARN, asked as one: names are unique among all."""

    @staticmethod
    def tarn_doctor_checks(spec: ClusterSpec, context: ClientContext) -> Iterator[Check]:
        given = {"spec": spec, "context": context}
        for point in sorted(entry_points(group="tarn"), key=lambda point: point.name):
            if point.dist is None or point.dist.name != DISTRIBUTION:
                continue
            hook: Callable[..., Iterator[Check]] | None
            hook = getattr(point.load(), "tarn_doctor_checks", None)
            if hook is not None:
                names = hook.__code__.co_varnames[: hook.__code__.co_argcount]
                yield from hook(*(given[name] for name in names))


class TestBuiltIn(DoctorContract):
    """Local and YARN, with every discovery, where none of it is there."""

    plugin = BuiltIn
    specs = (
        {"runtime": {"use": "local"}, "api": {"port": 54321}},
        *YARN,
        {
            "discovery": [
                {"use": "zookeeper", "options": {"ensemble": NOBODY}},
                {"use": "zookeeper", "options": {"ensemble": NOBODY, "digest": "file:/no/where"}},
                {"use": "haproxy", "options": {"socket": "/no/socket"}},
                {"use": "haproxy", "options": {"followers": ["edge1"]}},
            ]
        },
    )


GOOD = Check("the weather", "Rain makes people stay at home.", lambda: CheckResult("it rains"))
WET = Finding("WET-1", "roof", "it leaks", "Mend the roof")


def plugin_of(*checks: Check) -> type:
    def tarn_doctor_checks() -> tuple[Check, ...]:
        return checks

    return type("Plugin", (), {"tarn_doctor_checks": staticmethod(tarn_doctor_checks)})


def look(looked: CheckResult) -> Check:
    return attrs.evolve(GOOD, look=lambda: looked)


def write(path: Path) -> CheckResult:
    path.mkdir(parents=True, exist_ok=True)
    (path / "mark").touch()
    return CheckResult("it rains")


def fail(error: Exception) -> CheckResult:
    raise error


class TestStranger(DoctorContract):
    """A stranger's plugin: one check is well, one finds something, one asks what is away."""

    plugin = plugin_of(
        GOOD,
        Check("the roof", "Who is wet works badly.", lambda: CheckResult("", (WET,))),
        Check("the cellar", "It holds the wine.", lambda: fail(LaunchError("house", "is locked"))),
    )


@pytest.mark.parametrize(
    ("checks", "test"),
    [
        ((), "test_offers_for_what_concerns_it"),
        (("rain",), "test_offers_for_what_concerns_it"),
        ((GOOD, GOOD), "test_names_are_few_words_and_each_its_own"),
        ((attrs.evolve(GOOD, name="the weather."),), "test_names_are_few_words_and_each_its_own"),
        ((attrs.evolve(GOOD, name=""),), "test_names_are_few_words_and_each_its_own"),
        ((attrs.evolve(GOOD, name="a\nb"),), "test_names_are_few_words_and_each_its_own"),
        ((attrs.evolve(GOOD, matters="Rain is wet"),), "test_matters_is_one_sentence"),
        ((attrs.evolve(GOOD, matters="rain is wet."),), "test_matters_is_one_sentence"),
        ((attrs.evolve(GOOD, matters="It rains. It pours."),), "test_matters_is_one_sentence"),
        ((attrs.evolve(GOOD, within_s=float("inf")),), "test_waiting_has_an_end"),
        ((attrs.evolve(GOOD, within_s=0.0),), "test_waiting_has_an_end"),
        (
            (attrs.evolve(GOOD, look=lambda: fail(KeyError("x"))),),
            "test_looking_raises_nothing_of_its_own",
        ),
        (
            (look(CheckResult("", (attrs.evolve(WET, code="TARN-3999"),))),),
            "test_what_is_wrong_helps",
        ),
        ((look(CheckResult("", (attrs.evolve(WET, next_step=""),))),), "test_what_is_wrong_helps"),
        ((look(CheckResult("", (attrs.evolve(WET, found=" "),))),), "test_what_is_wrong_helps"),
        ((look(CheckResult("")),), "test_what_was_seen_is_said"),
        ((look(CheckResult("it rains.")),), "test_what_was_seen_is_said"),
    ],
)
def test_what_breaks_the_contract_is_caught(checks, test, tmp_path):
    """Each promise has a check that breaks it, and nothing else."""
    suite = DoctorContract()
    suite.plugin = plugin_of(*checks)
    with pytest.raises(AssertionError):
        getattr(suite, test)(tmp_path)


def test_who_writes_while_looking_is_caught(tmp_path):
    """A file that a look leaves."""
    suite = DoctorContract()
    suite.plugin = plugin_of(attrs.evolve(GOOD, look=lambda: write(tmp_path / "home")))
    with pytest.raises(AssertionError):
        suite.test_looking_changes_nothing(tmp_path)


def test_who_speaks_of_everything_is_caught(tmp_path):
    """Checks for a spec that does not concern the plugin."""
    suite = DoctorContract()
    suite.plugin, suite.foreign = plugin_of(GOOD), ({},)
    with pytest.raises(AssertionError):
        suite.test_offers_for_what_concerns_it(tmp_path)
