"""Every rule of `tarn doctor` for YARN, and those of them that keep `tarn up` from starting."""

from typing import Any
from urllib.parse import urlsplit

import attrs
from cattrs.preconf.json import make_converter

from tarn.domain import ClusterSpec
from tarn.errors import TarnError
from tarn.interfaces import Finding
from tarn_plugins.runtime.yarn import YarnSettings
from tarn_plugins.runtime.yarn.client.checks import from_error
from tarn_plugins.runtime.yarn.client.hadoop_child import HadoopClient
from tarn_plugins.runtime.yarn.doctor import containers, managers, queues, room, storage
from tarn_plugins.runtime.yarn.doctor.case import Case, NotSeen, Rule
from tarn_plugins.runtime.yarn.doctor.survey import Survey

__all__ = ["PREFLIGHT_S", "RULES", "copied", "errors"]

RULES: tuple[Rule, ...] = (
    *managers.RULES,
    *room.RULES,
    *queues.RULES,
    *containers.RULES,
    *storage.RULES,
)
"""Every check of YARN, in the order in which `tarn doctor` shows them."""
PREFLIGHT_S = 30.0
"""For the look of `tarn up`: 0.1 s once YARN has answered another question; a silent node costs
3 s, a silent file system 20."""
_MAY_PASS = frozenset({"TARN-3146", "TARN-3147"})
"""Errors of this moment: others hold the room. `tarn up` waits for it, and says so."""
_converter = make_converter()


def errors(
    hadoop: HadoopClient,
    spec: ClusterSpec,
    settings: YarnSettings,
    python: str,
    known: tuple[Finding, ...] = (),
) -> tuple[Finding, ...]:
    """Return the errors that `tarn doctor` would tell and that waiting does not heal.

    What is wrong with the models and the environment of the nodes is left out: who starts something
    looks at both by other questions. A look that fails is told, and is not an error. Nothing is
    looked at where an error is among the *known* findings: it is often the cause of others, such as
    a size that no queue has either.
    """
    if any(finding.fatal for finding in known):
        return ()
    asked: dict[str, Any] = {"repository": None, "serve": [], "copied": copied(spec), "python": ""}
    try:
        told = hadoop.ask("survey", PREFLIGHT_S, **asked)
    except TarnError as error:
        return (attrs.evolve(from_error(error), fatal=False),)
    case = Case(spec, settings, python, _converter.structure(told, Survey))
    found = (_findings(rule, case) for rule in RULES if rule.concerns(spec, settings))
    return tuple(f for each in found for f in each if f.fatal and f.code not in _MAY_PASS)


def copied(spec: ClusterSpec) -> str | None:
    """Return the model repository of this machine that would be copied to HDFS; None: none."""
    parts = urlsplit(spec.models.repository)
    return parts.path if parts.scheme == "file" else None


def _findings(rule: Rule, case: Case) -> tuple[Finding, ...]:
    try:
        return rule.look(case).findings
    except NotSeen:
        return ()
