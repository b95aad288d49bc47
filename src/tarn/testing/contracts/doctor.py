"""The contract of the checks of `tarn doctor`: they help, and change nothing."""

import math
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import attrs

from tarn.doctor import CheckState, OfferedCheck, Result, examine
from tarn.domain import CODES, ClusterSpec
from tarn.errors import PluginError
from tarn.interfaces import Check, ClientContext
from tarn.plain import structure
from tarn.testing.context import client_context
from tarn.testing.wait import within

__all__ = ["DoctorContract"]

_LONGEST_NAME = 72
_OURS = "TARN-"
_OWN_BEGIN = "TARN-9"  # codes that a plugin may use freely; all others are in the table
_SEEN: dict[Any, tuple[Result, ...]] = {}  # the results of each plugin: a check may take seconds


class DoctorContract:
    """Set `plugin`, which has the hook, and `specs`, for which it offers checks.

    The servers that the checks ask may be away; the checks must not raise anything but a
    `TarnError` then.
    """

    plugin: Any
    """A module or an object with ``tarn_doctor_checks``."""
    specs: Sequence[Mapping[str, Any]] = ({},)
    """Specs as in a ``tarn.yaml``; missing names and models are added."""
    foreign: Sequence[Mapping[str, Any]] = ()
    """Specs for which it must offer nothing."""
    offers_within_s: float = 10.0
    """Seconds that the hook may take: a check opens what it needs only when it runs."""
    looks_within_s: float = 60.0
    """Seconds that all checks of a spec may take."""

    def spec(self, plain: Mapping[str, Any]) -> ClusterSpec:
        """Return *plain* as a spec."""
        whole = {"name": "fleet", "models": {"repository": "/models"}, **plain}
        made, problems = structure(ClusterSpec, whole)
        assert made is not None, problems
        return made

    def context(self, directory: Path) -> ClientContext:
        """Return the context for the checks, with an empty home below *directory*."""
        return client_context(directory)

    def offered(self, spec: ClusterSpec, context: ClientContext) -> tuple[Check, ...]:
        """Return the plugin's checks, as `tarn doctor` gets them."""
        hook = self.plugin.tarn_doctor_checks
        given: dict[str, object] = {"spec": spec, "context": context}
        names = hook.__code__.co_varnames[: hook.__code__.co_argcount]
        return tuple(hook(*(given[name] for name in names if name != "self")))

    def _each(self, directory: Path) -> Iterator[Check]:
        for plain in self.specs:
            yield from self.offered(self.spec(plain), self.context(directory))

    def _look(self, directory: Path) -> tuple[Result, ...]:
        context, results = self.context(directory), list[Result]()
        for plain in self.specs:
            checks = self.offered(self.spec(plain), context)
            offered = [OfferedCheck("this plugin", check) for check in checks]
            results += within(self.looks_within_s, partial(examine, offered, context.clock))
        return tuple(results)

    def _results(self, directory: Path) -> tuple[Result, ...]:
        """Return the results of the checks, which run once for all tests of a plugin."""
        if self.plugin not in _SEEN:
            _SEEN[self.plugin] = self._look(directory)
        return _SEEN[self.plugin]

    def test_offers_for_what_concerns_it(self, tmp_path: Path) -> None:
        """It offers checks for each of its specs without delay, and none for others."""
        for plain in self.specs:
            spec = self.spec(plain)
            ask = partial(self.offered, spec, self.context(tmp_path))
            checks = within(self.offers_within_s, ask)
            assert checks, plain
            assert all(isinstance(check, Check) for check in checks)
        for plain in self.foreign:
            assert self.offered(self.spec(plain), self.context(tmp_path)) == ()

    def test_offers_without_models(self, tmp_path: Path) -> None:
        """A spec may have no repository yet: checks that need one are not offered."""
        for plain in self.specs:
            spec = self.spec(plain)
            bare = attrs.evolve(spec, models=attrs.evolve(spec.models, repository=""))
            assert isinstance(self.offered(bare, self.context(tmp_path)), tuple)

    def test_names_are_few_words_and_each_its_own(self, tmp_path: Path) -> None:
        """Names are shown in a table, and read by programs."""
        for plain in self.specs:
            checks = self.offered(self.spec(plain), self.context(tmp_path))
            names = [check.name for check in checks]
            assert len(set(names)) == len(names), names
            for name in names:
                assert name == name.strip(), name
                assert name.isprintable(), name
                assert 0 < len(name) <= _LONGEST_NAME, name
                assert not name.endswith("."), name

    def test_matters_is_one_sentence(self, tmp_path: Path) -> None:
        """It is shown after ``why``, so it begins like a sentence and ends with a full stop."""
        for check in self._each(tmp_path):
            matters = check.matters
            assert matters.isprintable(), matters
            assert matters[:1].isupper() or not matters[:1].isalpha(), matters
            assert matters.endswith("."), matters
            assert ". " not in matters, matters

    def test_waiting_has_an_end(self, tmp_path: Path) -> None:
        """Each check has a finite limit of at least a second."""
        for check in self._each(tmp_path):
            assert math.isfinite(check.within_s)
            assert check.within_s >= 1.0

    def test_looking_raises_nothing_of_its_own(self, tmp_path: Path) -> None:
        """Something missing is a finding, or makes the result unknown; it is not an exception."""
        for result in self._results(tmp_path):
            codes = [one.code for one in result.findings]
            assert PluginError.default_code not in codes, result

    def test_what_is_wrong_helps(self, tmp_path: Path) -> None:
        """A finding has a documented code, what was found, and what to do; no traceback."""
        for result in self._results(tmp_path):
            for one in result.findings:
                known = one.code in CODES or not one.code.startswith(_OURS)
                assert known or one.code.startswith(_OWN_BEGIN), one
                assert one.found.strip(), one
                assert one.next_step.strip(), one
                assert "Traceback" not in one.found, one

    def test_what_was_seen_is_said(self, tmp_path: Path) -> None:
        """A check without findings says in one line what it saw, or why it saw nothing."""
        for result in self._results(tmp_path):
            if result.state is CheckState.OK or not result.findings:
                assert result.seen.strip(), result
            assert "\n" not in result.seen, result
            assert not result.seen.endswith("."), result

    def test_looking_changes_nothing(self, tmp_path: Path) -> None:
        """No file is left in the home, and a second run has the same results."""
        first = [(one.check, one.state) for one in self._results(tmp_path)]
        assert [(one.check, one.state) for one in self._look(tmp_path)] == first
        assert [path for path in tmp_path.rglob("*") if path.is_file()] == []
