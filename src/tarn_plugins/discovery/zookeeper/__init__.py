"""ZooKeeper: an ephemeral node for each instance, and one that says which master speaks."""

from collections.abc import Iterable, Mapping

import attrs
from attrs.validators import ge, in_

from tarn.domain import ClusterSpec
from tarn.hookspecs import Factory, hookimpl
from tarn.interfaces import Check, ClientContext, Discovery, MasterContext
from tarn.zk.acl import AclEntry
from tarn.zk.nodes import INSTANCES, check_ensemble, check_path

__all__ = ["ZooKeeperSettings", "ZooKeeperTlsSettings", "tarn_discoveries", "tarn_doctor_checks"]


_WHOLE = "the master starts in another directory, so use an absolute path"


@attrs.frozen
class ZooKeeperTlsSettings:
    """Files of an encrypted connection, in PEM form, on the master's machine."""

    ca: str = ""
    """Who signed the servers' certificates; empty: the system's authorities."""
    cert: str = ""
    """The master's own certificate, where the servers want to know their clients."""
    key: str = ""
    """Of ``cert``, without a password."""

    def __attrs_post_init__(self) -> None:
        """Refuse half a pair."""
        if bool(self.cert) != bool(self.key):
            raise ValueError("cert and key belong together; one of them is missing")
        for file in (self.ca, self.cert, self.key):
            if file and not file.startswith("/"):
                raise ValueError(f"tls names the relative path '{file}'; {_WHOLE}")


@attrs.frozen
class ZooKeeperSettings:
    """``discovery[].options`` of ``zookeeper``."""

    ensemble: str
    """``host:port,host:port``; with a chroot at its end where wanted: ``zk1:2181,zk2:2181/a``."""
    path: str = INSTANCES
    """Its children are the instances; it is made where it is missing."""
    payload: str = attrs.field(default="hostport", validator=in_(("hostport", "json")))
    """What a node says: ``host:port`` of the HTTP service, or JSON with everything."""
    session_timeout_s: float = attrs.field(default=10.0, validator=ge(1.0))
    """So long without a master, the instances stay; the servers may allow less or more."""
    acl: tuple[str, ...] | None = None
    """``scheme:id:permissions`` of each node made. None: with ``digest`` the master may do
    everything and the world read (``auth::cdrwa``, ``world:anyone:r``), without it all may all."""
    digest: str = ""
    """Where ``user:password`` is kept: ``file:PATH`` or ``env:NAME``, on the master's machine."""
    tls: ZooKeeperTlsSettings | None = None
    jaas: str = ""
    """Of the Java TARN; refused: use ``digest``."""

    def __attrs_post_init__(self) -> None:
        """Refuse what cannot be meant, at `tarn up` and not when the first instance is ready."""
        check_ensemble(self.ensemble)
        check_path(self.path)
        for line in self.acl or ():
            AclEntry.parse(line)
        # Never the value: somebody may have put the password itself here.
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
    """Offer to look at each ensemble that *spec* names."""
    if not any(one.use == "zookeeper" for one in spec.discovery):
        return ()
    from tarn_plugins.discovery.zookeeper.checks import checks  # noqa: PLC0415 (needs kazoo)

    return checks(spec, context)
