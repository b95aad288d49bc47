"""The checks of `tarn doctor` around a spec, and their report.

They are those that `up` makes before it starts anything, and those that plugins offer.
"""

import os
import shutil
import stat
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import attrs

from tarn import doctor, release
from tarn.cluster.environment import ClusterEnvironment
from tarn.cluster.link import Link
from tarn.cluster.operate.probing import reach, scrapable
from tarn.cluster.read import card
from tarn.cluster.read.table import columns
from tarn.cluster.start import stores
from tarn.cluster.start.staging import examined, guessed
from tarn.doctor import CheckState, Result, totals, worst_last
from tarn.domain import ClusterSpec
from tarn.interfaces import Check, CheckResult, Deployer, Finding, Paths, Progress
from tarn.plain import masked, pasted
from tarn.plugins import Plugins
from tarn.triton import mounts

__all__ = ["Diagnosis", "around_spec", "home", "offers"]

_US = "tarn"
_GIB = 2**30
# Free bytes where clusters keep their files: below the first a warning, below the second an error.
_LITTLE, _TOO_LITTLE = 1 * _GIB, 64 * 2**20
# `card` has colours for states of instances only.
_DOTS = {
    CheckState.OK: "ready",
    CheckState.UNKNOWN: "stopped",
    CheckState.WARNING: "warning",
    CheckState.ERROR: "failed",
}


@attrs.frozen(repr=False)
class Diagnosis:
    """The result of all checks; printed, the worst comes last."""

    results: tuple[Result, ...]
    """In the order in which the checks were offered."""

    @property
    def ok(self) -> bool:
        """Whether no finding keeps a cluster from working."""
        return not any(result.fatal for result in self.results)

    @property
    def findings(self) -> tuple[Finding, ...]:
        """Everything that is wrong."""
        return tuple(finding for result in self.results for finding in result.findings)

    @property
    def summary(self) -> str:
        """How many checks there were, and how many have each state."""
        counts = []
        for state, count in totals(self.results).items():
            plural = "s" if state in (CheckState.ERROR, CheckState.WARNING) and count != 1 else ""
            if count:
                counts.append(f"{count} {state}{plural}")
        number = len(self.results)
        return f"{number} check{'' if number == 1 else 's'}: {', '.join(counts) or 'none'}"

    def plain(self) -> list[dict[str, object]]:
        """Return a row for each check, for programs."""
        return [result.plain() for result in self.results]

    def __str__(self) -> str:
        """Return what was seen, then what is wrong, without the summary."""
        quiet = [one for one in self.results if one.state in (CheckState.OK, CheckState.UNKNOWN)]
        wrong = [one for one in worst_last(self.results) if one.findings]
        table = columns(("STATE", "CHECK", "SEEN"), [(o.state, o.check, o.seen) for o in quiet])
        parts = [table] if quiet else []
        for one in wrong:
            lines = [f"{one.state}: {one.check}"]
            for number, finding in enumerate(one.findings):
                lines.append(f"  what  {_what(finding)} [{finding.code}]")
                if not number:  # the check's, so once
                    lines.append(f"  why   {one.matters}")
                lines.append(f"  fix   {finding.next_step.rstrip('.')}")
            parts.append("\n".join(lines))
        return "\n\n".join(parts)

    def __repr__(self) -> str:
        """Return the text for people, because a notebook shows a value by its repr."""
        return f"{self}\n\n{self.summary}"

    def _repr_html_(self) -> str:
        worst_first = worst_last(self.results)[::-1]
        wrong = [
            (
                card.state(_DOTS[one.state], one.check),
                finding.code,
                _what(finding),
                "" if number else one.matters,
                finding.next_step,
            )
            for one in worst_first
            for number, finding in enumerate(one.findings)
        ]
        quiet = [
            (card.state(_DOTS[one.state], one.check), one.seen)
            for one in self.results
            if not one.findings
        ]
        return (
            card.line(self.summary, _DOTS[worst_first[0].state if worst_first else CheckState.OK])
            + card.rows(("check", "code", "what", "why it matters", "fix"), wrong)
            + card.rows(("check", "seen"), quiet)
        )


def _what(finding: Finding) -> str:
    return f"{finding.where}: {finding.found}" if finding.where else finding.found


def around_spec(
    spec: ClusterSpec,
    around: ClusterEnvironment,
    hear: Callable[[Progress], None] | None = None,
    *,
    probe: bool,
) -> Diagnosis:
    """Run every check around *spec*; with *probe* also those that start something briefly.

    Raises:
        PluginError: Two plugins offer a check of the same name.
    """
    link = Link(spec.name, around, _Client(spec, around))
    try:
        offered = offers(spec, around, link, probe=probe)
        results = doctor.examine(offered, around.clock, hear or (lambda _progress: None))
    finally:
        link.close()
    return Diagnosis(doctor.once(results))


class _Client:
    """Makes the deployer of a spec's runtime once; several checks ask for it at the same time."""

    def __init__(self, spec: ClusterSpec, around: ClusterEnvironment) -> None:
        self._runtime, self._around = spec.runtime, around
        self._turn = threading.Lock()
        self._made: Deployer | None = None

    def __call__(self) -> Deployer:
        with self._turn:
            if self._made is None:
                self._made = self._around.deployer(self._runtime.use, self._runtime.options)
            return self._made


def offers(
    spec: ClusterSpec,
    around: ClusterEnvironment,
    link: Link,
    *,
    probe: bool,
) -> tuple[doctor.OfferedCheck, ...]:
    """Return every check around *spec*, in the order of the report.

    Args:
        spec: With an empty ``models.repository``, checks that need one are left out.
        around: The environment of this process.
        link: To the master, if it runs, and to the deployer of its runtime.
        probe: Also return checks that start something briefly.
    """
    plugins, context = around.plugins(), around.context()
    brought = plugins.doctor_checks(spec, context)
    probes = plugins.doctor_probes(spec, context) if probe else ()
    return (
        doctor.OfferedCheck(
            _US,
            Check(
                "this TARN",
                "Another project's library is also called `tarn`: where it is installed, it takes "
                "the place of TARN's package.",
                installation,
            ),
        ),
        doctor.OfferedCheck(
            _US,
            Check(
                "TARN's directory",
                "What is known of clusters, their api tokens and local logs are kept there.",
                lambda: home(around.paths),
            ),
        ),
        *(doctor.OfferedCheck(plugin, check) for plugin, check in brought),
        *(doctor.OfferedCheck(_US, check) for check in _preflight(spec, around, link)),
        *(doctor.OfferedCheck(plugin, check) for plugin, check in probes),
    )


def _preflight(spec: ClusterSpec, around: ClusterEnvironment, link: Link) -> Iterator[Check]:
    """Yield what `tarn up` checks before it starts anything."""
    plugins = around.plugins()
    if spec.models.repository:
        yield Check(
            "model repository",
            "Instances serve the models in it.",
            lambda: repository(spec, plugins, around.environ),
        )
    if spec.secrets:
        yield Check(
            "secrets",
            "Instances get them as environment variables; nothing starts while one of them "
            "cannot be read.",
            lambda: secrets(spec, around),
            within_s=90.0,  # each store that Hadoop reads starts a JVM
        )

    def start() -> CheckResult:
        if link.find() is not None:
            return CheckResult(f"'{spec.name}' is running and holds what it needs")
        found = link.deployer.check(spec)
        return CheckResult("" if found else "nothing prevents a start", found)

    yield Check(
        "what else `tarn up` looks at",
        "Nothing starts while there is an error here.",
        start,
        within_s=120.0,  # it asks a remote runtime several questions, one after the other
    )
    yield Check(
        "the master's API",
        "Every command, every client and every agent of a load balancer asks it.",
        lambda: reach(link, around),
    )
    yield Check(
        "metrics",
        "Prometheus, alerts and dashboards have no data without them.",
        lambda: scrapable(link),
    )


def repository(spec: ClusterSpec, plugins: Plugins, environ: Mapping[str, str]) -> CheckResult:
    """Check the models as far as this machine can read them."""
    found = tuple(examined(spec, plugins, environ))
    if found:
        return CheckResult("", found)
    staged, shown = guessed(spec, plugins), masked(spec.models.repository)
    if staged.kind == "localize":
        return CheckResult(f"{shown}, which the nodes fetch themselves")
    if "://" in spec.models.repository:
        copied = "will be checked once `tarn up` has copied it; `tarn lint` checks it now"
        return CheckResult(f"{shown} {copied}", known=False)
    return CheckResult(f"{shown}, used in place")


def secrets(spec: ClusterSpec, around: ClusterEnvironment) -> CheckResult:
    """Read every secret as a start does, and report the variables, never a value."""
    found, amiss = stores.look(spec, around)
    names = ", ".join(stores.given(found)) or "nothing"
    return CheckResult("" if amiss else f"instances get {names}", amiss)


def installation() -> CheckResult:
    """Check that no other project's package named tarn replaces TARN's."""
    other = release.other_tarn()
    found = (
        Finding(
            "TARN-3620",
            sys.prefix,
            f"holds the distribution 'tarn' {other}: another project's, whose package 'tarn' takes "
            "the place of TARN's own",
            f"pip uninstall tarn, then pip install --force-reinstall {release.DISTRIBUTION}",
        ),
    )
    return CheckResult(f"{release.DISTRIBUTION} {release.version()}", found if other else ())


def home(paths: Paths) -> CheckResult:
    """Check that clusters can keep their files here; writes nothing."""
    directory = paths.home / "clusters"
    away = mounts.unanswered(paths.home, "TARN_HOME")
    if away is not None:
        return CheckResult("", (away,))
    there = next(one for one in (directory, *directory.parents) if one.exists())
    free = shutil.disk_usage(there).free
    found = [*_unwritable(there, directory)]
    if free < _LITTLE:
        step = "Free some, or set TARN_HOME to a directory on another disk"
        lacks = f"has {_size(free)} free"
        found.append(Finding("TARN-3602", str(there), lacks, step, fatal=free < _TOO_LITTLE))
    says = "" if there == directory else "; it is made by the first `tarn up`"
    return CheckResult(f"{paths.home}, {_size(free)} free{says}", tuple(found))


def _unwritable(there: Path, wanted: Path) -> Iterator[Finding]:
    """Yield why the user cannot write to *there*, or why others can."""
    found = ""
    if not there.is_dir():
        found = "is not a directory"
    elif not os.access(there, os.W_OK | os.X_OK):
        found = "cannot be written by this user"
    if found:
        yield Finding(
            "TARN-3600",
            str(there),
            found if there == wanted else f"{found}, so {wanted} cannot be made",
            "Set TARN_HOME to a directory that you may write to, or fix this one",
        )
    mode = there.stat().st_mode
    if there.name == "clusters" and mode & (stat.S_IWGRP | stat.S_IWOTH):
        yield Finding(
            "TARN-3601",
            str(there),
            f"has the mode {stat.S_IMODE(mode):04o}: others may put files there that `tarn` trusts",
            pasted("chmod", "700", there),
            fatal=False,
        )


def _size(count: int) -> str:
    return f"{count / _GIB:.1f} GiB" if count >= _GIB else f"{count >> 20} MiB"
