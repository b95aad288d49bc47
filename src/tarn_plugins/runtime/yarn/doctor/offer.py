"""The checks of `tarn doctor` for the runtime ``yarn``: one shared survey, and a rule for each.

`tarn up` refuses to start after those of their errors that waiting does not resolve.
"""

import contextlib
import sys
import threading
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any
from urllib.parse import urlsplit

import attrs

from tarn.domain import ClusterSpec
from tarn.errors import TarnError
from tarn.interfaces import Check, CheckResult, ClientContext, Finding
from tarn.plain import structure
from tarn.plain.structure import from_record
from tarn_plugins.runtime.yarn import READS, YarnSettings
from tarn_plugins.runtime.yarn.client.checks import from_error
from tarn_plugins.runtime.yarn.client.hadoop_child import HadoopClient, start_child
from tarn_plugins.runtime.yarn.doctor import containers, managers, room, storage
from tarn_plugins.runtime.yarn.doctor.case import Case, NotSeen, Rule, elsewhere, teller
from tarn_plugins.runtime.yarn.environment import packed
from tarn_plugins.runtime.yarn.survey import Survey

__all__ = ["RULES", "checks", "errors"]

# For one survey: a JVM takes 2 s to start, and a silent ResourceManager 15 s.
WITHIN_S = 50.0

# Every check of YARN, in the order in which `tarn doctor` shows them.
RULES: tuple[Rule, ...] = (
    *managers.RULES,
    *room.RULES,
    *containers.RULES,
    *storage.RULES,
)
# For the survey of `tarn up`: 0.1 s after YARN has answered another question; a silent node costs
# 3 s, a silent file system 20 s.
PREFLIGHT_S = 30.0
# Temporary errors: other applications use the room. `tarn up` waits for it, and says so.
_MAY_PASS = frozenset({"TARN-3146", "TARN-3147"})


def checks(
    spec: ClusterSpec, context: ClientContext, hadoop: HadoopClient | None = None
) -> Iterator[Check]:
    """Yield the checks of the YARN for *spec*; none for another runtime.

    Args:
        spec: The cluster.
        context: The client's.
        hadoop: Asks YARN; None means a child process for the survey.
    """
    if spec.runtime.use != "yarn":
        return
    settings, problems = structure(YarnSettings, spec.runtime.options, "runtime.options")
    if settings is None or problems:
        return  # `tarn doctor` reports errors in the options of all providers
    once = _Once(partial(_ask, spec, settings, context, hadoop))
    python = settings.python or sys.executable
    case = partial(Case, spec, settings, python)
    for rule in RULES:
        if not rule.concerns(spec, settings):
            continue
        yield Check(rule.name, rule.matters, partial(_look, rule, once, case))


class _Once:
    """A survey for all checks: the first one makes it, the others wait. Any thread may use it."""

    def __init__(self, ask: Callable[[], Survey]) -> None:
        self._ask, self._lock = ask, threading.Lock()
        self._found: Survey | TarnError | None = None

    def survey(self) -> Survey | TarnError:
        with self._lock:
            if self._found is None:
                try:
                    self._found = self._ask()
                except TarnError as error:
                    self._found = error
            return self._found


def _look(rule: Rule, once: _Once, case: Callable[[Survey], Case]) -> CheckResult:
    survey = once.survey()
    if isinstance(survey, TarnError):
        if rule.name == teller(survey.code):
            return CheckResult("", (from_error(survey),))
        return CheckResult(elsewhere(survey.code), known=False)
    try:
        return rule.look(case(survey))
    except NotSeen as unseen:
        return CheckResult(str(unseen), known=False)


def _ask(
    spec: ClusterSpec, settings: YarnSettings, context: ClientContext, hadoop: HadoopClient | None
) -> Survey:
    """Make the survey, if needed by a child process that ends after it."""
    if hadoop is None:
        with contextlib.closing(start_child(settings, context)) as own:
            return _ask(spec, settings, context, own)
    return from_record(Survey, hadoop.ask("survey", WITHIN_S, **_asked(spec, settings)))


def _asked(spec: ClusterSpec, settings: YarnSettings) -> dict[str, Any]:
    """Return the `looking.SurveyScope` of *spec*, as JSON."""
    location = spec.models.repository
    return {
        "repository": location if urlsplit(location).scheme in READS else None,
        "serve": list(spec.models.serve),
        "copied": copied(spec),
        "python": packed(settings.python),
    }


def errors(
    hadoop: HadoopClient,
    spec: ClusterSpec,
    settings: YarnSettings,
    python: str,
    known: tuple[Finding, ...] = (),
) -> tuple[Finding, ...]:
    """Return the errors of `tarn doctor` that waiting does not resolve.

    A failed survey is returned as a warning. Without a survey, return nothing if *known* contains
    an error.
    """
    # An error is often the cause of others, such as a size that no queue has either.
    if any(finding.fatal for finding in known):
        return ()
    # Without models and environment, which a start checks by other questions.
    asked: dict[str, Any] = {"repository": None, "serve": [], "copied": copied(spec), "python": ""}
    try:
        told = hadoop.ask("survey", PREFLIGHT_S, **asked)
    except TarnError as error:
        return (attrs.evolve(from_error(error), fatal=False),)
    case = Case(spec, settings, python, from_record(Survey, told))
    found = (_findings(rule, case) for rule in RULES if rule.concerns(spec, settings))
    return tuple(f for each in found for f in each if f.fatal and f.code not in _MAY_PASS)


def copied(spec: ClusterSpec) -> str | None:
    """Return the local model repository that would be copied to HDFS, or None."""
    parts = urlsplit(spec.models.repository)
    return parts.path if parts.scheme == "file" else None


def _findings(rule: Rule, case: Case) -> tuple[Finding, ...]:
    try:
        return rule.look(case).findings
    except NotSeen:
        return ()
