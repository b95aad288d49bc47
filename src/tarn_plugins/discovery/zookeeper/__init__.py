"""ZooKeeper: an ephemeral node for each instance, and one node for the cluster."""

from collections.abc import Iterable, Mapping

import attrs
from attrs.validators import ge, in_

from tarn.domain import ClusterSpec
from tarn.hookspecs import Factory, hookimpl
from tarn.interfaces import Check, ClientContext, Discovery, MasterContext
from tarn.zk.nodes import INSTANCES, AclEntry, check_ensemble, check_path

__all__ = ["ZooKeeperSettings", "ZooKeeperTlsSettings", "tarn_discoveries", "tarn_doctor_checks"]


_WHOLE = "the master starts in another directory, so use an absolute path"


@attrs.frozen
class ZooKeeperTlsSettings:
    """PEM files of an encrypted connection, on the master's machine."""

    ca: str = ""
    """Authority of the servers' certificates; empty: the system's authorities."""
    cert: str = ""
    """The master's own certificate, for servers that require one."""
    key: str = ""
    """Private key of ``cert``, without a password."""

    def __attrs_post_init__(self) -> None:
        """Require certificate and key together, and absolute paths."""
        if bool(self.cert) != bool(self.key):
            raise ValueError("cert and key belong together; one of them is missing")
        for file in (self.ca, self.cert, self.key):
            if file and not file.startswith("/"):
                raise ValueError(f"tls names the relative path '{file}'; {_WHOLE}")


@attrs.frozen
class ZooKeeperSettings:
    """``discovery[].options`` of ``zookeeper``."""

    ensemble: str
    """``host:port,host:port``; a chroot may follow at its end: ``zk1:2181,zk2:2181/a``."""
    path: str = INSTANCES
    """The parent of the instances' nodes; it is created if it is missing."""
    payload: str = attrs.field(default="hostport", validator=in_(("hostport", "json")))
    """The content of a node: ``host:port`` of the HTTP service, or JSON with everything."""
    session_timeout_s: float = attrs.field(default=10.0, validator=ge(1.0))
    """Seconds for which the nodes stay without a master; the servers may change the value."""
    acl: tuple[str, ...] | None = None
    """``scheme:id:permissions`` of each new node. None: with ``digest`` the master may do
    everything and everybody may read (``auth::cdrwa``, ``world:anyone:r``); without ``digest``
    everybody may do everything."""
    digest: str = ""
    """Where ``user:password`` is: ``file:PATH`` or ``env:NAME``, on the master's machine."""
    tls: ZooKeeperTlsSettings | None = None
    jaas: str = ""
    """An option of the Java TARN; refused: use ``digest``."""

    def __attrs_post_init__(self) -> None:
        """Refuse invalid options at `tarn up`, before the first instance is ready."""
        check_ensemble(self.ensemble)
        check_path(self.path)
        for line in self.acl or ():
            AclEntry.parse(line)
        # The message never quotes the value: it may be the password itself.
        kind, _, name = self.digest.partition(":")
        if self.digest and not (kind in {"file", "env"} and name):
            raise ValueError("digest does not say where; use file:PATH or env:NAME")
        if kind == "file" and not name.startswith(("/", "~")):
            raise ValueError(f"digest names a relative path; {_WHOLE}: file:/etc/tarn/zookeeper")
        if self.jaas:
            raise ValueError(
                "jaas: TARN no longer reaches ZooKeeper from a JVM, so it does not read a JAAS "
                "file. Write user:password into a file and name it with digest: file:PATH"
            )


def _zookeeper(settings: ZooKeeperSettings, context: MasterContext) -> Discovery:
    from tarn_plugins.discovery.zookeeper.discovery import ZooKeeper  # noqa: PLC0415

    return ZooKeeper(settings, context)


@hookimpl
def tarn_discoveries() -> Mapping[str, Factory[Discovery]]:
    """Offer ``zookeeper``."""
    return {
        "zookeeper": Factory(
            settings=ZooKeeperSettings,
            create=_zookeeper,
            summary="an ephemeral ZooKeeper node for each instance",
            requires=("kazoo",),
            extra="zookeeper",
        )
    }


@hookimpl
def tarn_doctor_checks(spec: ClusterSpec, context: ClientContext) -> Iterable[Check]:
    """Offer the checks of each ensemble that *spec* names."""
    if not any(one.use == "zookeeper" for one in spec.discovery):
        return ()
    from tarn_plugins.discovery.zookeeper.checks import checks  # noqa: PLC0415 (needs kazoo)

    return checks(spec, context)
