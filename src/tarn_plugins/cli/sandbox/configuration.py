"""Make Hadoop's configuration files from a sandbox's options. Pure.

Clients and all daemons read ``etc/hadoop``. A ResourceManager or a NodeManager also has a
``yarn-site.xml`` in ``etc/<daemon>``, which comes first on its classpath.
"""

from collections.abc import Mapping
from xml.sax.saxutils import escape

import attrs

from tarn_plugins.cli.sandbox import kerberos
from tarn_plugins.cli.sandbox.options import PORTS, SandboxOptions, host, nodes, resource_managers

__all__ = ["SandboxSite", "files"]

Properties = Mapping[str, str]

# A partition that every queue may use; tests create it.
LABEL = "gpu"
# Queue -> guaranteed percentage; each may grow to the whole cluster.
QUEUES = {"default": 75, "batch": 25}
# Host names, one a line, of the nodes that `yarn rmadmin -refreshNodes` decommissions.
EXCLUDED = "etc/excluded-nodes"
_YARN = "org.apache.hadoop.yarn.server"
_ROLLING = "yarn.nodemanager.log-aggregation.roll-monitoring-interval-seconds"
_TYPES = {"yarn.resource-types": "yarn.io/gpu"}
# Prefix of a property's name -> the files that it belongs to; the first match counts.
_FILES = (
    ("yarn.scheduler.capacity.", ("capacity-scheduler",)),
    ("yarn.resource-types", ("resource-types", "yarn")),
    ("yarn.", ("yarn",)),
    ("dfs.", ("hdfs",)),
    ("", ("core",)),
)
_LOG4J = """\
hadoop.root.logger=WARN,console
log4j.rootLogger=${hadoop.root.logger}
log4j.appender.console=org.apache.log4j.ConsoleAppender
log4j.appender.console.target=System.err
log4j.appender.console.layout=org.apache.log4j.PatternLayout
log4j.appender.console.layout.ConversionPattern=%d{ISO8601} %p %c{2}: %m%n
"""
_NOTHING = "<!doctype html><title>TARN sandbox</title><p>There are no pages here; see /jmx.</p>\n"


@attrs.frozen
class SandboxSite:
    """Where a sandbox stands."""

    directory: str
    """Absolute."""
    user: str
    """Who runs the daemons: the superuser of HDFS, and whom YARN lets act for others."""


def files(options: SandboxOptions, site: SandboxSite) -> dict[str, str]:
    """Return path below the sandbox's directory -> content, for every file but the programs."""
    queues = _with_own(_queues(), "capacity-scheduler", options)
    made = {
        "etc/hadoop/core-site.xml": xml(_with_own(_core(options, site), "core", options)),
        "etc/hadoop/hdfs-site.xml": xml(_with_own(_hdfs(options, site), "hdfs", options)),
        "etc/hadoop/yarn-site.xml": xml(_with_own(_yarn(options, site), "yarn", options)),
        "etc/hadoop/capacity-scheduler.xml": xml(queues),
        "etc/hadoop/resource-types.xml": xml(_with_own(_TYPES, "resource-types", options)),
        "etc/hadoop/log4j.properties": _LOG4J,
        EXCLUDED: "",
        # Hadoop's web server wants these directories on the classpath, and Maven's jars lack them.
        "share/webapps/hdfs/index.html": _NOTHING,
        "share/webapps/datanode/index.html": _NOTHING,
    }
    for name in resource_managers(options):
        me = {"yarn.resourcemanager.ha.id": name} if options.ha else {}
        me |= kerberos.resource_manager() if options.kerberos else {}
        own = {**_yarn(options, site), **me}
        made[f"etc/{name}/yarn-site.xml"] = xml(_with_own(own, "yarn", options))
    for name in nodes(options):
        own = {**_yarn(options, site), **_node(name, options, site)}
        made[f"etc/{name}/yarn-site.xml"] = xml(_with_own(own, "yarn", options))
        made[f"etc/{name}/node-resources.xml"] = xml(
            {"yarn.nodemanager.resource-type.yarn.io/gpu": str(options.gpus)}
        )
    if options.ha:
        made["etc/zk/zoo.cfg"] = _zookeeper(options, site)
    if options.kerberos:
        made |= kerberos.texts(options, site.directory)
    return made


def xml(properties: Properties) -> str:
    """Return *properties* as Hadoop writes them."""
    rows = "".join(
        f"  <property><name>{escape(name)}</name><value>{escape(value)}</value></property>\n"
        for name, value in properties.items()
    )
    return f'<?xml version="1.0" encoding="UTF-8"?>\n<configuration>\n{rows}</configuration>\n'


def _with_own(properties: Properties, file: str, options: SandboxOptions) -> Properties:
    """Return *properties* of *file*, and over them those that the user gave for it."""
    given = {name: value for name, value in options.properties.items() if file in _places(name)}
    return {name: value for name, value in {**properties, **given}.items() if value}


def _places(name: str) -> tuple[str, ...]:
    return next(files for prefix, files in _FILES if name.startswith(prefix))


def _core(options: SandboxOptions, site: SandboxSite) -> Properties:
    acting = f"hadoop.proxyuser.{site.user}"
    return {
        "fs.defaultFS": f"hdfs://{host('nn', options)}:{PORTS['nn']['rpc']}",
        "hadoop.tmp.dir": f"{site.directory}/data/tmp",
        "hadoop.security.authentication": "simple",
        "hadoop.security.authorization": "false",
        f"{acting}.hosts": "*",
        f"{acting}.groups": "*",
        **(kerberos.core(options) if options.kerberos else {}),
    }


def _hdfs(options: SandboxOptions, site: SandboxSite) -> Properties:
    name_node, data_node = host("nn", options), host("dn", options)
    ports = PORTS["dn"]
    return {
        "dfs.replication": "1",
        "dfs.blocksize": "16m",
        "dfs.namenode.name.dir": f"file://{site.directory}/data/nn",
        "dfs.datanode.data.dir": f"file://{site.directory}/data/dn",
        "dfs.namenode.rpc-address": f"{name_node}:{PORTS['nn']['rpc']}",
        "dfs.namenode.http-address": f"{name_node}:{PORTS['nn']['http']}",
        "dfs.namenode.safemode.extension": "0",
        # A crash of the machine may cost the sandbox's data: it is made again.
        "dfs.namenode.edits.noeditlogchannelflush": "true",
        "dfs.datanode.address": f"{data_node}:{ports['data']}",
        "dfs.datanode.http.address": f"{data_node}:{ports['http']}",
        "dfs.datanode.ipc.address": f"{data_node}:{ports['ipc']}",
        "dfs.datanode.hostname": data_node,
        # The NameNode takes the DataNode's address from its connection, which leaves from
        # 127.0.0.1; nobody listens there. Its name is right.
        "dfs.client.use.datanode.hostname": "true",
        "dfs.datanode.use.datanode.hostname": "true",
        "dfs.namenode.datanode.registration.ip-hostname-check": "false",
        **(kerberos.hdfs(options, site.directory) if options.kerberos else {}),
    }


def _yarn(options: SandboxOptions, site: SandboxSite) -> Properties:
    expiry_ms = str(round(options.expiry_s * 1000))
    data = f"{site.directory}/data"
    return {
        **(_two_resource_managers(options) if options.ha else _one_resource_manager(options, data)),
        "yarn.resourcemanager.scheduler.class": (
            f"{_YARN}.resourcemanager.scheduler.capacity.CapacityScheduler"
        ),
        "yarn.resourcemanager.placement-constraints.handler": options.placement,
        "yarn.resourcemanager.nodes.exclude-path": f"{site.directory}/{EXCLUDED}",
        **_TYPES,
        "yarn.node-labels.enabled": "true",
        "yarn.node-labels.fs-store.root-dir": f"file://{data}/labels",
        "yarn.resourcemanager.am.max-attempts": "20",
        "yarn.resourcemanager.recovery.enabled": "true",
        "yarn.resourcemanager.work-preserving-recovery.enabled": "true",
        "yarn.resourcemanager.work-preserving-recovery.scheduling-wait-ms": "2000",
        "yarn.resourcemanager.nodemanagers.heartbeat-interval-ms": "250",
        "yarn.nm.liveness-monitor.expiry-interval-ms": expiry_ms,
        "yarn.am.liveness-monitor.expiry-interval-ms": expiry_ms,
        "yarn.scheduler.minimum-allocation-mb": "128",
        "yarn.scheduler.maximum-allocation-mb": str(options.memory_mib),
        "yarn.scheduler.maximum-allocation-vcores": str(options.vcores),
        "yarn.application.classpath": f"{site.directory}/etc/hadoop,{site.directory}/lib/*",
        # The logs of running containers are aggregated, too, every ten seconds.
        "yarn.log-aggregation-enable": "true",
        "yarn.nodemanager.remote-app-log-dir": "/tmp/logs",  # noqa: S108 (a path of HDFS)
        _ROLLING: "10",
        f"{_ROLLING}.min": "1",
        **(kerberos.yarn(site.directory) if options.kerberos else {}),
    }


def _one_resource_manager(options: SandboxOptions, data: str) -> Properties:
    return {
        "yarn.resourcemanager.hostname": host("rm", options),
        **_addresses("rm", options, ""),
        "yarn.resourcemanager.store.class": (
            f"{_YARN}.resourcemanager.recovery.FileSystemRMStateStore"
        ),
        "yarn.resourcemanager.fs.state-store.uri": f"file://{data}/rm",
    }


def _two_resource_managers(options: SandboxOptions) -> Properties:
    names = resource_managers(options)
    made = {
        "yarn.resourcemanager.ha.enabled": "true",
        "yarn.resourcemanager.ha.rm-ids": ",".join(names),
        "yarn.resourcemanager.ha.automatic-failover.enabled": "true",
        "yarn.resourcemanager.ha.automatic-failover.embedded": "true",
        "yarn.resourcemanager.cluster-id": f"sandbox-{options.network}",
        "yarn.resourcemanager.store.class": f"{_YARN}.resourcemanager.recovery.ZKRMStateStore",
        "hadoop.zk.address": f"{host('zk', options)}:{PORTS['zk']['client']}",
        "yarn.resourcemanager.zk-timeout-ms": "4000",
    }
    for name in names:
        made[f"yarn.resourcemanager.hostname.{name}"] = host(name, options)
        made.update(_addresses(name, options, f".{name}"))
    return made


def _addresses(name: str, options: SandboxOptions, suffix: str) -> Properties:
    keys = {
        "client": "address",
        "scheduler": "scheduler.address",
        "tracker": "resource-tracker.address",
        "admin": "admin.address",
        "http": "webapp.address",
    }
    return {
        f"yarn.resourcemanager.{key}{suffix}": f"{host(name, options)}:{PORTS['rm'][what]}"
        for what, key in keys.items()
    }


def _node(name: str, options: SandboxOptions, site: SandboxSite) -> Properties:
    me, ports, own = host(name, options), PORTS["nm"], f"{site.directory}/data/{name}"
    return {
        "yarn.nodemanager.hostname": me,
        # With a fixed port, a restarted NodeManager is the same node, and keeps its containers.
        "yarn.nodemanager.address": f"{me}:{ports['rpc']}",
        "yarn.nodemanager.localizer.address": f"{me}:{ports['localizer']}",
        "yarn.nodemanager.webapp.address": f"{me}:{ports['http']}",
        "yarn.nodemanager.recovery.enabled": "true",
        "yarn.nodemanager.recovery.supervised": "true",
        "yarn.nodemanager.recovery.dir": f"{own}/recovery",
        "yarn.nodemanager.local-dirs": f"{own}/local",
        "yarn.nodemanager.log-dirs": f"{own}/logs",
        "yarn.nodemanager.container-executor.class": (
            f"{_YARN}.nodemanager.DefaultContainerExecutor"
        ),
        "yarn.nodemanager.resource.memory-mb": str(options.memory_mib),
        "yarn.nodemanager.resource.cpu-vcores": str(options.vcores),
        "yarn.nodemanager.pmem-check-enabled": "true",
        # True would mean that cgroups enforce the limit, and disable this check.
        "yarn.nodemanager.resource.memory.enforced": "false",
        "yarn.nodemanager.vmem-check-enabled": "false",
        "yarn.nodemanager.container-monitor.interval-ms": "1000",
        "yarn.nodemanager.delete.debug-delay-sec": "0",
        # By default, a node starts nothing when its disk is 90 % full, as a developer's may be.
        "yarn.nodemanager.disk-health-checker.max-disk-utilization-per-disk-percentage": "99",
        "yarn.nodemanager.env-whitelist": (
            "JAVA_HOME,HADOOP_HOME,HADOOP_CONF_DIR,KRB5_CONFIG,PATH,LANG,TZ"
        ),
        # For the node's reconnection to a restarted ResourceManager; clients keep the defaults.
        "yarn.resourcemanager.connect.retry-interval.ms": "1000",
        "yarn.client.failover-sleep-base-ms": "500",
        "yarn.client.failover-sleep-max-ms": "2000",
        **(kerberos.node(name, options) if options.kerberos else {}),
    }


def _queues() -> Properties:
    prefix = "yarn.scheduler.capacity"
    label = f"accessible-node-labels.{LABEL}"
    made = {
        # The default calculator counts only memory, and so neither vcores nor GPUs.
        f"{prefix}.resource-calculator": (
            "org.apache.hadoop.yarn.util.resource.DominantResourceCalculator"
        ),
        # By default, all masters together get a tenth of a queue, which is little in a sandbox.
        f"{prefix}.maximum-am-resource-percent": "0.8",
        f"{prefix}.root.queues": ",".join(QUEUES),
        f"{prefix}.root.accessible-node-labels": "*",
        f"{prefix}.root.{label}.capacity": "100",
    }
    for queue, percent in QUEUES.items():
        own = f"{prefix}.root.{queue}"
        made |= {
            f"{own}.capacity": str(percent),
            f"{own}.maximum-capacity": "100",
            f"{own}.user-limit-factor": "100",  # one user may use the whole queue
            f"{own}.accessible-node-labels": "*",
            f"{own}.{label}.capacity": str(percent),
            f"{own}.{label}.maximum-capacity": "100",
        }
    return made


def _zookeeper(options: SandboxOptions, site: SandboxSite) -> str:
    settings = {
        "tickTime": "500",
        "dataDir": f"{site.directory}/data/zk",
        "clientPort": str(PORTS["zk"]["client"]),
        "clientPortAddress": host("zk", options),
        "admin.enableServer": "false",
        # No limit, since all clients of a sandbox have the same address.
        "maxClientCnxns": "0",
        "maxSessionTimeout": "40000",
    }
    return "".join(f"{key}={value}\n" for key, value in settings.items())
