"""What `tarn doctor` looks at around a spec: what `up` examines first, and what plugins bring."""

import os
import shutil
import stat
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from tarn import doctor, release
from tarn.cluster import stores
from tarn.cluster.diagnosis import Diagnosis
from tarn.cluster.environment import ClusterEnvironment
from tarn.cluster.link import Link
from tarn.cluster.reaching import reach
from tarn.cluster.scraping import scrapable
from tarn.cluster.staging import examined, guessed
from tarn.domain import ClusterSpec
from tarn.interfaces import Check, CheckResult, Deployer, Finding, Paths, Progress
from tarn.plain import masked, pasted
from tarn.plugins import Plugins
from tarn.triton import mounts

__all__ = ["around_spec", "home", "offers"]

_US = "tarn"
_GIB = 2**30
_LITTLE, _TOO_LITTLE = 1 * _GIB, 64 * 2**20
"""Bytes free where clusters keep their files: less than this may, or will, run out."""


def around_spec(
    spec: ClusterSpec,
    around: ClusterEnvironment,
    hear: Callable[[Progress], None] | None = None,
    *,
    probe: bool,
) -> Diagnosis:
    """Look at everything around *spec*; with *probe* also start something for a moment.

    Raises:
        PluginError: Two plugins offer a check of one name.
    """
    link = Link(spec.name, around, _Client(spec, around))
    try:
        offered = offers(spec, around, link, probe=probe)
        results = doctor.examine(offered, around.clock, hear or (lambda _progress: None))
    finally:
        link.close()
    return Diagnosis(doctor.once(results))


class _Client:
    """Gives the client side of a spec's runtime: several checks ask at once, and one is made."""

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
    """Return everything that is looked at around *spec*, in the order in which it is told.

    Args:
        spec: With an empty ``models.repository``, what needs one is left out.
        around: The process's surroundings.
        link: To the master, if it runs, and to the client side of its runtime.
        probe: Also what starts something for a moment.
    """
    plugins, context = around.plugins(), around.context()
    brought = plugins.doctor_checks(spec, context)
    probes = plugins.doctor_probes(spec, context) if probe else ()
    return (
        *(doctor.OfferedCheck(_US, check) for check in _before(around)),
        *(doctor.OfferedCheck(plugin, check) for plugin, check in brought),
        *(doctor.OfferedCheck(_US, check) for check in _preflight(spec, around, link)),
        *(doctor.OfferedCheck(plugin, check) for plugin, check in probes),
    )


def _before(around: ClusterEnvironment) -> Iterator[Check]:
    yield Check(
        "this TARN",
        "Another project's library is also called `tarn`: where it is installed, it takes the "
        "place of TARN's package.",
        installation,
    )
    yield Check(
        "TARN's directory",
        "What is known of clusters, their api tokens and local logs are kept there.",
        lambda: home(around.paths),
    )


def _preflight(spec: ClusterSpec, around: ClusterEnvironment, link: Link) -> Iterator[Check]:
    """Yield what `tarn up` looks at before it starts anything; last, as it tells much again."""
    plugins = around.plugins()

    def start() -> CheckResult:
        if link.find() is not None:
            return CheckResult(f"'{spec.name}' is running and holds what it needs")
        found = link.deployer.check(spec)
        return CheckResult("" if found else "nothing prevents a start", found)

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
            within_s=90.0,  # each store that Hadoop reads starts a Java
        )
    yield Check(
        "what else `tarn up` looks at",
        "Nothing starts while there is an error here.",
        start,
        within_s=120.0,  # a runtime far away is asked several things, one after the other
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
    """Look at the models as far as this machine can see them, and say how far that is."""
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
    """Read every secret as a start does, and say which variables come of them; no value."""
    found, amiss = stores.look(spec, around)
    names = ", ".join(stores.given(found)) or "nothing"
    return CheckResult("" if amiss else f"instances get {names}", amiss)


def installation() -> CheckResult:
    """Look whether this Python has TARN's packages, or another project's of the same name."""
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
    """Look whether clusters can keep their files; nothing is made or written."""
    directory = paths.home / "clusters"
    away = mounts.unanswered(paths.home, "TARN_HOME")
    if away is not None:
        return CheckResult("", (away,))
    there = _nearest(directory)
    free = shutil.disk_usage(there).free
    found = (*_unwritable(there, directory), *_open(there), *_space(free, there))
    says = "" if there == directory else "; it is made by the first `tarn up`"
    return CheckResult(f"{paths.home}, {_size(free)} free{says}", found)


def _nearest(path: Path) -> Path:
    """Return *path*, or the nearest above it that exists."""
    return next(one for one in (path, *path.parents) if one.exists())


def _unwritable(there: Path, wanted: Path) -> Iterator[Finding]:
    if not there.is_dir():
        found = "is not a directory"
    elif not os.access(there, os.W_OK | os.X_OK):
        found = "cannot be written by this user"
    else:
        return
    yield Finding(
        "TARN-3600",
        str(there),
        found if there == wanted else f"{found}, so {wanted} cannot be made",
        "Set TARN_HOME to a directory that you may write to, or fix this one",
    )


def _open(there: Path) -> Iterator[Finding]:
    mode = there.stat().st_mode
    if there.name == "clusters" and mode & (stat.S_IWGRP | stat.S_IWOTH):
        yield Finding(
            "TARN-3601",
            str(there),
            f"has the mode {stat.S_IMODE(mode):04o}: others may put files there that `tarn` trusts",
            pasted("chmod", "700", there),
            fatal=False,
        )


def _space(free: int, there: Path) -> Iterator[Finding]:
    if free < _LITTLE:
        yield Finding(
            "TARN-3602",
            str(there),
            f"has {_size(free)} free",
            "Free some, or set TARN_HOME to a directory on another disk",
            fatal=free < _TOO_LITTLE,
        )


def _size(count: int) -> str:
    return f"{count / _GIB:.1f} GiB" if count >= _GIB else f"{count >> 20} MiB"
