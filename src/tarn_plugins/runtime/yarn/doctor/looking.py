"""Gathers a `Survey`, in the process that holds the JVM; changes nothing.

ResourceManager, NameNode and nodes are asked in parallel: one that is silent costs its own
deadline, and no more.
"""

import json
import time
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, TypeVar

import attrs

from tarn.clock import Skew, skew
from tarn.errors import ProviderError, TarnError, TimedOutError
from tarn.interfaces import Finding
from tarn.java import jvm
from tarn.release import version
from tarn_plugins.runtime.yarn.client import packed, versions
from tarn_plugins.runtime.yarn.client.checks import from_error
from tarn_plugins.runtime.yarn.client.cluster import Hadoop
from tarn_plugins.runtime.yarn.client.overview import YarnNode, YarnOverview
from tarn_plugins.runtime.yarn.doctor.hdfs_look import look_at_hdfs
from tarn_plugins.runtime.yarn.doctor.scheduling import scheduler
from tarn_plugins.runtime.yarn.doctor.survey import (
    Client,
    HdfsSurvey,
    NodeSettings,
    ResourceManagerSurvey,
    Survey,
)
from tarn_plugins.runtime.yarn.hadoop import web

__all__ = ["PROPERTIES", "SurveyScope", "look"]

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
"""Beginnings of the properties that are looked at; the others stay where they are."""
_NODE_S = 3.0
"""For a node: the way to it may be closed, and a firewall says nothing."""
_YARN_S, _HDFS_S = 25.0, 20.0
_SILENT_S = 8.0
"""For YARN, where the web servers of its ResourceManagers do not answer either."""
_MOST_NODES = 6
_TOKEN_LIFE = "dfs.namenode.delegation.token.max-lifetime"  # noqa: S105 (a property's name)
T = TypeVar("T")


@attrs.frozen
class SurveyScope:
    """What of a spec decides where to look."""

    repository: str | None = None
    """A model repository that the nodes fetch by themselves."""
    serve: tuple[str, ...] = ()
    copied: str | None = None
    """A model repository of this machine that would be copied to HDFS."""
    python: str = ""
    """A packed environment; empty: none."""


def look(hadoop: Hadoop, asked: SurveyScope) -> Survey:
    """Look once at everything; takes about a second, and up to 20 where something is silent."""
    with _pool() as pool:
        name_node = pool.submit(_name_node, hadoop)
        hdfs: Future[HdfsSurvey | None] = pool.submit(
            look_at_hdfs, hadoop, asked.repository, asked.serve, asked.copied
        )
        python = pool.submit(_python, hadoop, asked.python)
        managers = [pool.submit(_manager, hadoop.web, base) for base in hadoop.web.bases]
        live = pool.submit(_properties, hadoop.web, hadoop.web.bases)
        queues = pool.submit(_scheduler, hadoop.web)
        answer = pool.submit(_overview, hadoop)
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
    """Threads that nobody waits for at the end: one may be deep in Hadoop's own patience."""

    def __enter__(self) -> ThreadPoolExecutor:
        self._made = ThreadPoolExecutor(8, "survey")
        return self._made

    def __exit__(self, *_: object) -> None:
        self._made.shutdown(wait=False, cancel_futures=True)


def _within(
    hadoop: Hadoop, asked: "Future[T]", silent: TarnError, within_s: float
) -> tuple[T | None, Finding | None]:
    """Return the answer, or why there is none; *silent*: the error for a silence of *within_s*."""
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


def _overview(hadoop: Hadoop) -> YarnOverview | None:
    return hadoop.overview(None, ())


def _python(hadoop: Hadoop, archive: str) -> tuple[Finding, ...]:
    return packed.look(archive, hadoop.files, version()) if archive else ()


def _manager(site: web.Web, base: str) -> ResourceManagerSurvey:
    """Ask one RM who it is; a standby answers this question, too."""
    before = time.time()
    try:
        data, date = site.look(f"{base}/{versions.INFO}")
        answer = json.loads(data)
        state = str(answer["clusterInfo"].get("haState", ""))
    except ProviderError as error:
        return ResourceManagerSurvey(base, problem=error.found)
    except (AttributeError, KeyError, TypeError, ValueError):
        return ResourceManagerSurvey(
            base, problem="gives an answer that does not come from a ResourceManagerSurvey"
        )
    return ResourceManagerSurvey(
        base,
        state=state,
        version=versions.of_manager(answer),
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


def _scheduler(site: web.Web) -> Any:
    return scheduler(site.rest("ws/v1/cluster/scheduler"))


def _chosen(overview: YarnOverview | None) -> Sequence[YarnNode]:
    """Return a running node of each kind (label and size), then others, `_MOST_NODES` in all."""
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
    """What the web server of a NameNode told."""

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
    """Return the base URLs of the web servers of HDFS's NameNodes, as far as they are named."""
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
