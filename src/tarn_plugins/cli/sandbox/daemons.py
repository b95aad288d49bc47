"""The daemons of a sandbox, and how each is started. Pure."""

import attrs

from tarn_plugins.cli.sandbox.network import PORTS, address, nodes, resource_managers
from tarn_plugins.cli.sandbox.options import SandboxOptions

__all__ = ["Daemon", "command", "daemons", "format_command", "java_command", "sockets"]

_HDFS = "org.apache.hadoop.hdfs.server"
_YARN = "org.apache.hadoop.yarn.server"
_NAME_NODE = f"{_HDFS}.namenode.NameNode"
_SMALL = (
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    "-XX:+ExitOnOutOfMemoryError",
    "-Xss512k",
    # Hadoop's own classes, as Maven brought them, need no proof: a fifth less work at the start.
    "-XX:+UnlockDiagnosticVMOptions",
    "-XX:-BytecodeVerificationRemote",
    "-Djava.net.preferIPv4Stack=true",
    # Hadoop's web servers define classes at run time.
    "--add-opens=java.base/java.lang=ALL-UNNAMED",
)


@attrs.frozen
class Daemon:
    """One daemon."""

    name: str
    """``nn``, ``dn``, ``zk``, ``kdc``, ``rm``, ``rm2``, ``nm1``...; its log is
    ``logs/<name>.log``."""
    main: str
    """A class; a program, where there is no heap."""
    heap_mib: int
    arguments: tuple[str, ...] = ()
    flags: tuple[str, ...] = ()
    """Java's, besides those that all have."""

    @property
    def kind(self) -> str:
        """Return the key into `PORTS`."""
        return self.name.rstrip("0123456789")


def daemons(options: SandboxOptions, directory: str) -> tuple[Daemon, ...]:
    """Return every daemon, in the order in which they are best started."""
    # Java looks for the realm where this says, and not where KRB5_CONFIG does.
    realm = f"-Djava.security.krb5.conf={directory}/etc/kerberos/krb5.conf"
    flags = (realm,) if options.kerberos else ()
    quorum = "org.apache.zookeeper.server.quorum.QuorumPeerMain"
    zookeeper = Daemon("zk", quorum, 128, (f"{directory}/etc/zk/zoo.cfg",))
    manager, node = f"{_YARN}.resourcemanager.ResourceManager", f"{_YARN}.nodemanager.NodeManager"
    return (
        *((Daemon("kdc", "krb5kdc", 0, ("-n",)),) if options.kerberos else ()),
        *((zookeeper,) if options.ha else ()),
        *(Daemon(name, manager, 384, flags=flags) for name in resource_managers(options)),
        Daemon("nn", _NAME_NODE, 256, flags=flags),
        Daemon("dn", f"{_HDFS}.datanode.DataNode", 256, flags=flags),
        *(Daemon(name, node, 192, flags=flags) for name in nodes(options)),
    )


def command(daemon: Daemon, java: str, directory: str) -> tuple[str, ...]:
    """Return the command line of *daemon*; *java* is the program."""
    if not daemon.heap_mib:
        return (daemon.main, *daemon.arguments)
    flags = (f"-Xmx{daemon.heap_mib}m", "-Dhadoop.root.logger=INFO,console", *daemon.flags)
    return (
        *java_command(java, directory, daemon.name, flags),
        daemon.main,
        *daemon.arguments,
    )


def format_command(java: str, directory: str, flags: tuple[str, ...] = ()) -> tuple[str, ...]:
    """Return the command line that makes an empty HDFS, and ends; *flags* are the NameNode's."""
    small = ("-Xmx128m", "-Dhadoop.root.logger=INFO,console")
    return (
        *java_command(java, directory, "nn", (*small, *flags)),
        _NAME_NODE,
        "-format",
        "-nonInteractive",
    )


def java_command(
    java: str, directory: str, conf: str, flags: tuple[str, ...] = ()
) -> tuple[str, ...]:
    """Return the beginning of a command line, up to the main class."""
    classpath = f"{directory}/etc/{conf}:{directory}/etc/hadoop:{directory}/share:{directory}/lib/*"
    return (
        java,
        *_SMALL,
        *flags,
        f"-Dhadoop.home.dir={directory}",
        f"-Dhadoop.log.dir={directory}/logs",
        # Native libraries and web pages are unpacked there; a daemon that is killed leaves them.
        f"-Djava.io.tmpdir={directory}/data/tmp",
        "-cp",
        classpath,
    )


def sockets(daemon: Daemon, options: SandboxOptions) -> tuple[tuple[str, int], ...]:
    """Return (address, port) of every socket on which *daemon* listens."""
    own = address(daemon.name, options)
    return tuple((own, port) for port in PORTS[daemon.kind].values())
