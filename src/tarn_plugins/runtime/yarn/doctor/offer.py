"""The checks of `tarn doctor` for the runtime ``yarn``: one shared look, and a rule for each."""

import sys
import threading
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any
from urllib.parse import urlsplit

from cattrs.preconf.json import make_converter

from tarn.domain import ClusterSpec
from tarn.errors import TarnError
from tarn.interfaces import Check, CheckResult, ClientContext
from tarn.plain import structure
from tarn_plugins.runtime.yarn import READS, YarnSettings
from tarn_plugins.runtime.yarn.client.checks import from_error
from tarn_plugins.runtime.yarn.client.deployer import start_child
from tarn_plugins.runtime.yarn.client.environments import packed
from tarn_plugins.runtime.yarn.client.hadoop_child import HadoopClient
from tarn_plugins.runtime.yarn.doctor.case import Case, NotSeen, Rule, elsewhere, teller
from tarn_plugins.runtime.yarn.doctor.rules import RULES, copied
from tarn_plugins.runtime.yarn.doctor.survey import Survey

__all__ = ["WITHIN_S", "checks"]

WITHIN_S = 50.0
"""For one look: a JVM takes 2 s, and a silent ResourceManager 15."""
_converter = make_converter()


def checks(
    spec: ClusterSpec, context: ClientContext, hadoop: HadoopClient | None = None
) -> Iterator[Check]:
    """Yield every check of the YARN that *spec* would run on; none where it runs elsewhere.

    Args:
        spec: What would run.
        context: The client's.
        hadoop: Asks YARN; None: a child process, which ends with the look.
    """
    if spec.runtime.use != "yarn":
        return
    settings, problems = structure(YarnSettings, spec.runtime.options, "runtime.options")
    if settings is None or problems:
        return  # `tarn doctor` says so: it reads the options of every provider
    once = _Once(partial(_ask, spec, settings, context, hadoop))
    python = settings.python or sys.executable
    case = partial(Case, spec, settings, python)
    for rule in RULES:
        if not rule.concerns(spec, settings):
            continue
        yield Check(rule.name, rule.matters, partial(_look, rule, once, case))


class _Once:
    """One look for all: the first who needs it takes it, the others wait. Any thread."""

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
    """Take the look; a child of its own is ended after it."""
    if hadoop is not None:
        return _structured(hadoop.ask("survey", WITHIN_S, **_asked(spec, settings)))
    own = start_child(settings, context)
    try:
        return _structured(own.ask("survey", WITHIN_S, **_asked(spec, settings)))
    finally:
        own.close()


def _structured(told: Any) -> Survey:
    return _converter.structure(told, Survey)


def _asked(spec: ClusterSpec, settings: YarnSettings) -> dict[str, Any]:
    """Return `looking.Asked` of *spec*, as JSON."""
    location = spec.models.repository
    return {
        "repository": location if urlsplit(location).scheme in READS else None,
        "serve": list(spec.models.serve),
        "copied": copied(spec),
        "python": packed(settings.python),
    }
