"""Checks of the file system that stores the files of clusters. Pure."""

from collections.abc import Iterator
from urllib.parse import urlsplit

from tarn.domain import ClusterSpec
from tarn.interfaces import CheckResult, Finding
from tarn.plain import pasted
from tarn_plugins.runtime.yarn import READS, YarnSettings
from tarn_plugins.runtime.yarn.client import checks
from tarn_plugins.runtime.yarn.doctor.case import Case, NotSeen, Rule, looked
from tarn_plugins.runtime.yarn.environment import packed
from tarn_plugins.runtime.yarn.survey import HdfsSurvey, Quota, listed

__all__ = ["RULES"]

# About how many files and directories a starting cluster needs besides its models: its own files,
# temporary ones, and the launch file of each instance.
_CLUSTER_NAMES = 16
_UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")
_UNIT_STEP = 1024
_DAY_S = 86400


def staging(case: Case) -> CheckResult:
    """Check whether the staging directory can be written, and read by the nodes."""
    failure = case.survey.hdfs_failure
    if failure is not None:
        return looked("", (failure,))
    hdfs = case.hdfs
    findings = [*checks.staging_written(hdfs.staging, hdfs.problem)]
    if hdfs.safe_mode:
        finding = Finding(
            "TARN-3175",
            hdfs.staging,
            "the NameNode is in safe mode: nothing can be written",
            "Wait until it leaves safe mode (`hdfs dfsadmin -safemode get`), or repair the "
            "DataNodes that are missing; if none is missing, run `hdfs dfsadmin -safemode leave`",
        )
        findings.append(finding)
    return looked(f"{hdfs.staging} can be written", (*findings, *_closed(case, hdfs)))


def _closed(case: Case, hdfs: HdfsSurvey) -> Iterator[Finding]:
    """Yield a finding when NodeManagers need the user's token to read the files."""
    if not hdfs.impassable:
        return
    master = "a lost master" if case.survey.client.kerberos else "on a secure YARN, a lost master"
    yield Finding(
        "TARN-3168",
        hdfs.staging,
        f"not everybody may pass through {listed(list(hdfs.impassable))}: {master} cannot be "
        "started again after its delegation tokens have ended",
        f"`{pasted('hdfs', 'dfs', '-chmod', 'o+x', *hdfs.impassable)}`, or set "
        "runtime.options.staging to a shared directory (mode 1777) whose parents everybody may "
        "pass through",
        fatal=False,
    )


def quotas(case: Case) -> CheckResult:
    """Check whether the quotas on the staging directory leave enough room."""
    hdfs = case.hdfs
    seen = "; ".join(map(_left, hdfs.quotas)) or f"no quota on {hdfs.staging} or above it"
    return looked(seen, (f for quota in hdfs.quotas for f in _over(quota, hdfs)))


def _left(quota: Quota) -> str:
    parts = [] if quota.names is None else [f"{max(0, quota.names)} names"]
    parts += [] if quota.space is None else [_bytes(max(0, quota.space))]
    return f"{quota.path} has {' and '.join(parts)} left"


def _over(quota: Quota, hdfs: HdfsSurvey) -> Iterator[Finding]:
    names = _CLUSTER_NAMES + (hdfs.to_copy is not None)
    if quota.names is not None and quota.names < names:
        yield Finding(
            "TARN-3166",
            quota.path,
            f"its name quota has {max(0, quota.names)} left; a cluster needs about {names} "
            "files and directories",
            "Remove files there, name another directory in runtime.options.staging, or have an "
            f"administrator run `hdfs dfsadmin -setQuota NUMBER {pasted(quota.path)}`",
        )
    # HDFS reserves a whole block for every replica, since it does not know the size yet.
    space = max(hdfs.block, (hdfs.to_copy or 0) * hdfs.replication)
    if quota.space is not None and quota.space < space:
        yield Finding(
            "TARN-3166",
            quota.path,
            f"its space quota has {_bytes(max(0, quota.space))} left; HDFS reserves "
            f"{_bytes(space)} before it writes",
            "Remove files there, name another directory in runtime.options.staging, or have an "
            f"administrator run `hdfs dfsadmin -setSpaceQuota BYTES {pasted(quota.path)}`",
        )


def space(case: Case) -> CheckResult:
    """Check whether the file system has enough free space."""
    hdfs = case.hdfs
    if hdfs.free is None:
        raise NotSeen("the file system does not report its free space")
    needed = max(hdfs.block, (hdfs.to_copy or 0) * hdfs.replication)
    models = "" if hdfs.to_copy is None else f"; the models take {_bytes(hdfs.to_copy)}"
    stored = "once" if hdfs.replication == 1 else f"{hdfs.replication} times"
    seen = f"{_bytes(hdfs.free)} free, each block stored {stored}{models}"
    if hdfs.free >= needed:
        return looked(seen)
    finding = Finding(
        "TARN-3167",
        hdfs.staging,
        f"{_bytes(hdfs.free)} are free, but {_bytes(needed)} are needed for all replicas",
        "Have files removed or DataNodes added, or name another file system in "
        "runtime.options.staging",
    )
    return looked(seen, (finding,))


def models(case: Case) -> CheckResult:
    """Check whether the repository from which the nodes fetch models can be read."""
    uri, count = case.spec.models.repository, case.hdfs.models
    seen = uri if count is None else f"{uri}: {count} file{'' if count == 1 else 's'}"
    return looked(seen, case.hdfs.repository)


def python(case: Case) -> CheckResult:
    """Report which Python runs on the nodes, or which archive brings it there."""
    if packed(case.python):
        return looked(f"packed in {case.python}", case.survey.python)
    seen = f"{case.python}; `tarn doctor --probe` checks whether the nodes have it"
    return looked(seen, checks.python_path(case.python))


def tokens(case: Case) -> CheckResult:
    """Report how long the delegation tokens of a submission last."""
    client = case.survey.client
    if not client.kerberos:
        return looked("none: no Kerberos")
    if client.token_life_s is None:
        raise NotSeen("the NameNode does not report how long its tokens can be renewed")
    days = client.token_life_s / _DAY_S
    if client.principal:
        new = f"the master gets new ones by the keytab of {client.principal}"
        return looked(f"can be renewed for {days:g} days; {new}")
    return looked(
        f"can be renewed for {days:g} days after each submission; after that, instances go on, but "
        "no new one starts until the cluster is submitted again (`tarn down`, then `tarn up`)"
    )


def _bytes(count: float) -> str:
    for unit in _UNITS:
        if count < _UNIT_STEP or unit == _UNITS[-1]:
            break
        count /= _UNIT_STEP
    return f"{count:.3g} {unit}" if unit != "B" else f"{count:.0f} B"


def _fetched(spec: ClusterSpec, _settings: YarnSettings) -> bool:
    return urlsplit(spec.models.repository).scheme in READS


RULES = (
    Rule(
        "staging directory",
        "The master's own files go there, and the nodes fetch them.",
        staging,
    ),
    Rule("quotas of HDFS", "HDFS does not write a file beyond a quota.", quotas),
    Rule("free space of HDFS", "Staged files need space in every replica.", space),
    Rule("models on Hadoop", "The nodes fetch the models as this user.", models, _fetched),
    Rule("Python of the nodes", "The master is a Python program on a node.", python),
    Rule("delegation tokens", "On a YARN with Kerberos, nodes fetch files with them.", tokens),
)
