"""Gather a `Survey`, in the process that holds the JVM; change nothing.

ResourceManager, NameNode and nodes are asked in parallel, so a silent one costs no more than its
own deadline. The answer of ``/ws/v1/cluster/scheduler`` differs between versions and schedulers;
missing parts are unknown, and not errors.
"""

import contextlib
import json
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

import attrs

from tarn.clock import Skew, skew
from tarn.errors import ProviderError, TarnError, TimedOutError
from tarn.interfaces import Finding
from tarn.java import jvm
from tarn.release import version
from tarn_plugins.runtime.yarn import environment
from tarn_plugins.runtime.yarn.client.checks import from_error
from tarn_plugins.runtime.yarn.client.cluster import CLUSTER_INFO, Hadoop, manager_version
from tarn_plugins.runtime.yarn.hadoop import web
from tarn_plugins.runtime.yarn.survey import (
    MEMORY,
    VCORES,
    Amounts,
    Client,
    HdfsSurvey,
    NodeSettings,
    Partition,
    QueueFacts,
    Quota,
    ResourceManagerSurvey,
    Scheduler,
    Survey,
    YarnNode,
    YarnOverview,
)

__all__ = ["SurveyScope", "look", "scheduler"]

# Prefixes of the properties that the checks use; others are dropped.
PROPERTIES = (
    "yarn.am.",
    "yarn.log-aggregation",
    "yarn.node-labels.",
    "yarn.resource-types",
    "yarn.resourcemanager.am.",
    "yarn.resourcemanager.delegation.",
    "yarn.resourcemanager.placement-constraints.",
    "yarn.resourcemanager.recovery.",
    "yarn.resourcemanager.scheduler.class",
    "yarn.resourcemanager.work-preserving-recovery.",
    "yarn.scheduler.",
    "yarn.nodemanager.",
)
# For a node, to which a firewall may silently block the way.
_NODE_S = 3.0
_YARN_S, _HDFS_S = 25.0, 20.0
# For YARN, if the web servers of its ResourceManagers do not answer either.
_SILENT_S = 8.0
_MOST_NODES = 6
_TOKEN_LIFE = "dfs.namenode.delegation.token.max-lifetime"  # noqa: S105 (a property's name)
T = TypeVar("T")

_PASS = 0o001
# The root and the directories right below it contain everybody's files, all of which HDFS would
# count only to report that there is no quota.
_SHALLOW = 1

Plain = Mapping[str, Any]

_ROOT = "root"
# The vcores in every result of a calculator that counts only memory.
_FEW = 1


@attrs.frozen
class SurveyScope:
    """The parts of a spec that a survey depends on."""

    repository: str | None = None
    """A model repository that the nodes fetch themselves."""
    serve: tuple[str, ...] = ()
    copied: str | None = None
    """A model repository of this machine that would be copied to HDFS."""
    python: str = ""
    """A packed environment; empty: none."""


def look(hadoop: Hadoop, asked: SurveyScope) -> Survey:
    """Gather a survey; takes about a second, or up to 20 if a server is silent."""
    with _pool() as pool:
        name_node = pool.submit(_name_node, hadoop)
        hdfs: Future[HdfsSurvey | None] = pool.submit(
            look_at_hdfs, hadoop, asked.repository, asked.serve, asked.copied
        )
        python = pool.submit(
            lambda: environment.look(asked.python, hadoop.files, version()) if asked.python else ()
        )
        managers = [pool.submit(_manager, hadoop.web, base) for base in hadoop.web.bases]
        live = pool.submit(_properties, hadoop.web, hadoop.web.bases)
        queues = pool.submit(lambda: scheduler(hadoop.web.rest("ws/v1/cluster/scheduler")))
        answer: Future[YarnOverview | None] = pool.submit(hadoop.overview, None, ())
        seen = tuple(each.result() for each in managers)
        patience_s = _SILENT_S if all(one.problem for one in seen) else _YARN_S
        silent = hadoop.silent(f"gave no answer within {patience_s:g} s")
        overview, failure = _within(hadoop, answer, silent, patience_s)
        nodes = [pool.submit(_node, hadoop, node) for node in _chosen(overview)]
        found, missed = _within(hadoop, hdfs, _no_hdfs(), _HDFS_S)
        return Survey(
            client=_client(hadoop, name_node.result().life_s),
            overview=overview,
            failure=failure,
            resource_managers=seen,
            properties=live.result(),
            scheduler=queues.result(),
            nodes=tuple(each.result() for each in nodes),
            name_node_clock=name_node.result().clock,
            hdfs=found,
            hdfs_failure=missed,
            python=_within(hadoop, python, _no_hdfs(), _HDFS_S)[0] or (),
        )


class _pool:  # noqa: N801 (a `with` of this module)
    """Threads that are not joined at the end, since Hadoop may block one for long."""

    def __enter__(self) -> ThreadPoolExecutor:
        self._made = ThreadPoolExecutor(8, "survey")
        return self._made

    def __exit__(self, *_: object) -> None:
        self._made.shutdown(wait=False, cancel_futures=True)


def _within(
    hadoop: Hadoop, asked: "Future[T]", silent: TarnError, within_s: float
) -> tuple[T | None, Finding | None]:
    """Return the answer, or why there is none; *silent* is the error for a time-out."""
    try:
        return asked.result(within_s), None
    except TimeoutError:
        error = silent
    except TarnError as raised:
        error = raised
    except jvm.throwable() as raised:
        error = hadoop.failed(raised)
    return None, from_error(error)


def _no_hdfs() -> TimedOutError:
    return TimedOutError(
        f"HDFS gave no answer within {_HDFS_S:g} s",
        code="TARN-3130",
        next_step="Is the NameNode up, and does fs.defaultFS in the core-site.xml of "
        "HADOOP_CONF_DIR name the right one?",
    )


def _manager(site: web.Web, base: str) -> ResourceManagerSurvey:
    """Ask one RM, possibly a standby, for its state."""
    before = time.time()
    try:
        data, date = site.look(f"{base}/{CLUSTER_INFO}")
        answer = json.loads(data)
        state = str(answer["clusterInfo"].get("haState", ""))
    except ProviderError as error:
        return ResourceManagerSurvey(base, problem=error.found)
    except (AttributeError, KeyError, TypeError, ValueError):
        return ResourceManagerSurvey(
            base, problem="gives an answer that does not come from a ResourceManager"
        )
    return ResourceManagerSurvey(
        base,
        state=state,
        version=manager_version(answer),
        clock=skew(date, before, time.time()),
    )


def _properties(site: web.Web, bases: Iterable[str]) -> Mapping[str, str] | None:
    """Return the live properties of the first of *bases* that shows any."""
    for base in bases:
        try:
            return _wanted(json.loads(site.get(f"{base}/conf")))
        except (ProviderError, KeyError, TypeError, ValueError):
            continue
    return None


def _wanted(answer: Mapping[str, Any]) -> dict[str, str]:
    return {
        str(one["key"]): str(one["value"])
        for one in answer["properties"]
        if str(one["key"]).startswith(PROPERTIES)
    }


def _chosen(overview: YarnOverview | None) -> Sequence[YarnNode]:
    """Return running nodes, first one of each label and size, at most `_MOST_NODES`."""
    there = [node for node in (overview.nodes if overview else ()) if node.runs and node.web]
    kinds: dict[tuple[str, tuple[tuple[str, int], ...]], YarnNode] = {}
    for node in there:
        kinds.setdefault((node.label, tuple(sorted(node.total.items()))), node)
    first = list(kinds.values())
    return [*first, *(node for node in there if node not in first)][:_MOST_NODES]


def _node(hadoop: Hadoop, node: YarnNode) -> NodeSettings:
    base = f"{web.scheme(hadoop.conf)}://{node.web}"
    try:
        data, _ = hadoop.web.look(f"{base}/conf", _NODE_S)
        properties = _wanted(json.loads(data))
    except ProviderError as error:
        return NodeSettings(node.host, problem=f"{base} {error.found}")
    except (KeyError, TypeError, ValueError):
        return NodeSettings(node.host, problem=f"{base}/conf answers no properties")
    return NodeSettings(node.host, _version(hadoop.web, base), properties)


def _version(site: web.Web, base: str) -> str:
    try:
        data, _ = site.look(f"{base}/ws/v1/node/info", _NODE_S)
        return str(json.loads(data)["nodeInfo"]["nodeManagerVersion"])
    except (ProviderError, KeyError, TypeError, ValueError):
        return ""


@attrs.frozen
class _NameNode:
    """The answer of a NameNode's web server."""

    clock: Skew | None = None
    life_s: float | None = None
    """``dfs.namenode.delegation.token.max-lifetime``."""


def _name_node(hadoop: Hadoop) -> _NameNode:
    for base in _name_nodes(hadoop.conf):
        before = time.time()
        try:
            data, date = hadoop.web.look(f"{base}/conf?name={_TOKEN_LIFE}", _NODE_S)
            answer = json.loads(data)
            found = answer.get("property") or answer["properties"][0]
            life_s = int(found["value"]) / 1000
        except (ProviderError, LookupError, TypeError, ValueError):
            continue
        return _NameNode(skew(date, before, time.time()), life_s)
    return _NameNode()


def _name_nodes(conf: Any) -> tuple[str, ...]:
    """Return the base URLs of the NameNodes' web servers that are configured."""
    secure = str(conf.get("dfs.http.policy")) == "HTTPS_ONLY"
    key = f"dfs.namenode.http{'s' if secure else ''}-address"
    names = [key]
    for service in conf.getStrings("dfs.nameservices") or ():
        ids = conf.getStrings(f"dfs.ha.namenodes.{service}") or ()
        names += [f"{key}.{service}.{each}" for each in ids] or [f"{key}.{service}"]
    found = [conf.get(name) for name in reversed(names)]
    return tuple(f"{'https' if secure else 'http'}://{each}" for each in found if each is not None)


def _client(hadoop: Hadoop, token_life_s: float | None) -> Client:
    system = jvm.load("java.lang.System")
    ugi = jvm.load("org.apache.hadoop.security.UserGroupInformation")
    return Client(
        user=hadoop.user,
        hadoop=str(jvm.load("org.apache.hadoop.util.VersionInfo").getVersion()),
        java=str(system.getProperty("java.version")),
        java_home=str(system.getProperty("java.home")),
        kerberos=bool(ugi.isSecurityEnabled()),
        principal=hadoop.principal,
        token_life_s=token_life_s,
    )


def look_at_hdfs(
    hadoop: Hadoop, repository: str | None, serve: Sequence[str], copied: str | None
) -> HdfsSurvey:
    """Survey the staging directory, and other files on Hadoop.

    Raises:
        TarnError: The file system cannot be reached.
        java.lang.Throwable: The same, as Java's exception.
    """
    staging, problem = hadoop.staging_problem()
    path = jvm.load("org.apache.hadoop.fs.Path")(staging)
    fs = path.getFileSystem(hadoop.conf)
    fs.getFileStatus(jvm.load("org.apache.hadoop.fs.Path")("/"))  # or each call below would wait
    existing = _existing(fs, path)
    findings, models = hadoop.repository(repository, serve) if repository else ((), None)
    return HdfsSurvey(
        staging=staging,
        problem=problem,
        existing=str(existing),
        impassable=tuple(_closed(fs, existing)),
        quotas=tuple(_quotas(fs, existing)),
        block=int(fs.getDefaultBlockSize(path)) * int(fs.getDefaultReplication(path)),
        replication=int(fs.getDefaultReplication(path)),
        free=_free(fs, existing),
        safe_mode=_safe_mode(fs),
        to_copy=_bytes_of(Path(copied)) if copied else None,
        repository=findings,
        models=models,
    )


def _existing(fs: Any, path: Any) -> Any:
    """Return *path*, or the nearest directory above it that exists and is visible."""
    while path.getParent() is not None:
        with contextlib.suppress(jvm.throwable()):  # for a closed directory above it
            if fs.exists(path):
                break
        path = path.getParent()
    return path


def _above(path: Any) -> Iterator[Any]:
    """Yield *path*, and every directory above it."""
    while path is not None:
        yield path
        path = path.getParent()


def _closed(fs: Any, existing: Any) -> Iterator[str]:
    """Yield the directories through which not everybody, such as a NodeManager, may pass."""
    for each in _above(existing):
        try:
            bits = int(fs.getFileStatus(each).getPermission().toShort())
        except jvm.throwable():
            continue
        if not bits & _PASS:
            yield str(each.toUri().getPath())


def _quotas(fs: Any, existing: Any) -> Iterator[Quota]:
    for each in _above(existing):
        if each.depth() <= _SHALLOW:
            return
        try:
            usage = fs.getQuotaUsage(each)
        except jvm.throwable():
            continue  # a directory of another user
        names, space = int(usage.getQuota()), int(usage.getSpaceQuota())
        if names > 0 or space > 0:
            yield Quota(
                str(each.toUri().getPath()),
                names - int(usage.getFileAndDirectoryCount()) if names > 0 else None,
                space - int(usage.getSpaceConsumed()) if space > 0 else None,
            )


def _free(fs: Any, existing: Any) -> int | None:
    try:
        return int(fs.getStatus(existing).getRemaining())
    except jvm.throwable():
        return None


def _safe_mode(fs: Any) -> bool:
    """Return whether the NameNode is in safe mode, which only HDFS has."""
    if str(fs.getScheme()) != "hdfs":
        return False
    try:
        return bool(fs.isInSafeMode())
    except jvm.throwable():
        return False


def _bytes_of(root: Path) -> int | None:
    """Return the size of all files below *root*; None if unreadable."""
    try:
        return sum(each.stat().st_size for each in root.rglob("*") if each.is_file())
    except OSError:
        return None


def scheduler(answer: Any) -> Scheduler | None:
    """Return the scheduler in the RM's REST *answer*, or None."""
    info = _part(_part(answer, "scheduler"), "schedulerInfo")
    kind = str(info.get("type", ""))
    if not kind:
        return None
    if kind == "capacityScheduler":
        queues = tuple(
            _capacity_queue(path, queue) for path, queue in _leaves(info, "queues", _ROOT)
        )
        return Scheduler("capacity", _counts_all(queues), queues)
    if kind == "fairScheduler":
        queues = tuple(
            _fair_queue(path, queue)
            for path, queue in _leaves(_part(info, "rootQueue"), "childQueues", _ROOT)
        )
        policy = str(_part(info, "rootQueue").get("schedulingPolicy", "")).lower()
        return Scheduler("fair", None, queues, policy)
    return Scheduler(kind.removesuffix("Scheduler"))


def _leaves(queue: Plain, key: str, parent: str) -> Iterator[tuple[str, Plain]]:
    """Yield the leaf queues below *queue*, with their whole paths."""
    # Before Hadoop 3.4 the answer has only the last part of a path, but a fair scheduler's has the
    # whole.
    for one in _list(_part(queue, key).get("queue")):
        name = str(one.get("queueName", ""))
        path = name if name.startswith(f"{parent}.") else f"{parent}.{name}"
        if _list(_part(one, key).get("queue")):
            yield from _leaves(one, key, path)
        else:
            yield path, one


def _capacity_queue(path: str, queue: Plain) -> QueueFacts:
    capacities = {
        str(one.get("partitionName", "")): one
        for one in _list(_part(queue, "capacities").get("queueCapacitiesByPartition"))
    }
    usages = {
        str(one.get("partitionName", "")): one
        for one in _list(_part(queue, "resources").get("resourceUsagesByPartition"))
    }
    return QueueFacts(
        path=path,
        partitions=tuple(
            _partition(label, capacities.get(label, {}), usages.get(label, {}), queue)
            for label in sorted({*capacities, *usages})
        ),
        user_factor=_number(queue.get("userLimitFactor")),
        master_percent=_number(queue.get("configuredMaxAMResourceLimit")),
        active=_whole(queue.get("numActiveApplications")) or 0,
        applications=_whole(queue.get("numApplications")) or 0,
        most_applications=_whole(queue.get("maxApplications")),
        max_lifetime_s=_whole(queue.get("maxApplicationLifetime")),
        default_lifetime_s=_whole(queue.get("defaultApplicationLifetime")),
    )


def _partition(label: str, capacity: Plain, usage: Plain, queue: Plain) -> Partition:
    """Return one partition; of the default one the queue's own fields are as good."""
    whole = queue if label == "" else {}
    return Partition(
        label,
        guaranteed=_amounts(capacity.get("effectiveMinResource")),
        most=_amounts(capacity.get("effectiveMaxResource")),
        used=_amounts(usage.get("used")),
        masters=_amounts(whole.get("AMResourceLimit") or usage.get("amLimit")),
        masters_used=_amounts(whole.get("usedAMResource") or usage.get("amUsed")),
    )


def _counts_all(queues: tuple[QueueFacts, ...]) -> bool | None:
    """Return whether the scheduler's calculator counts vcores; None if unknown."""
    # It computes the limit for masters, a share of a queue. A DefaultResourceCalculator uses only
    # the memory, and always gives one vcore.
    for queue in queues:
        for part in queue.partitions:
            share = queue.master_percent or 0.0
            expected = part.most.get(VCORES, 0) * share
            if part.masters.get(MEMORY, 0) > 0 and expected > 2 * _FEW:
                return part.masters.get(VCORES, 0) > _FEW
    return None


def _fair_queue(path: str, queue: Plain) -> QueueFacts:
    active = _whole(queue.get("numActiveApps")) or 0
    return QueueFacts(
        path=path,
        partitions=(
            Partition(
                "",
                guaranteed=_amounts(queue.get("steadyFairResources")),
                most=_amounts(queue.get("maxResources")),
                used=_amounts(queue.get("usedResources")),
                masters=_amounts(queue.get("amMaxResources")),
                masters_used=_amounts(queue.get("amUsedResources")),
            ),
        ),
        active=active,
        applications=active + (_whole(queue.get("numPendingApps")) or 0),
        most_applications=_whole(queue.get("maxApps")),
        policy=str(queue.get("schedulingPolicy", "")).lower(),
    )


def _amounts(resource: Any) -> Amounts:
    """Return a resource of the REST API as type -> amount; an older one has two types only."""
    if not isinstance(resource, Mapping):
        return {}
    listed = _list(_part(resource, "resourceInformations").get("resourceInformation"))
    if listed:
        return {str(one.get("name")): _whole(one.get("value")) or 0 for one in listed}
    if "memory" not in resource:
        return {}
    found = {MEMORY: resource["memory"], VCORES: resource.get("vCores")}
    return {kind: _whole(amount) or 0 for kind, amount in found.items()}


def _part(plain: Any, key: str) -> Plain:
    found = plain.get(key) if isinstance(plain, Mapping) else None
    return found if isinstance(found, Mapping) else {}


def _list(found: Any) -> list[Plain]:
    """Return a list of JSON that Java made: one element may stand without its brackets."""
    listed = found if isinstance(found, list) else [found]
    return [one for one in listed if isinstance(one, Mapping)]


def _number(value: Any) -> float | None:
    return float(value) if isinstance(value, int | float) else None


def _whole(value: Any) -> int | None:
    return int(value) if isinstance(value, int | float) else None
