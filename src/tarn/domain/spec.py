"""What the user wants: the whole of ``tarn.yaml`` as values.

A key in YAML, in a keyword argument and in the HTTP API is the field's name without its unit: the
suffix ``_s`` means a duration in seconds (written ``10m``, ``1.5s``, ``250ms``), ``_mib`` an amount
of memory in MiB (written ``4GiB``, ``512MiB``). A class checks what it alone can know;
`tarn.config.contradictions` finds what does not fit between parts.
"""

import re
from collections.abc import Mapping
from typing import Any, Literal

import attrs
from attrs.validators import deep_iterable, ge, gt, in_, le, matches_re, optional

__all__ = [
    "ApiSpec",
    "CacheSpec",
    "Choice",
    "ClusterSpec",
    "DiscoverySpec",
    "DrainSpec",
    "FarmSpec",
    "InstanceSpec",
    "LogSpec",
    "MasterSpec",
    "ModelsSpec",
    "ParallelismSpec",
    "PlacementSpec",
    "ReplicasSpec",
    "ResourcesSpec",
    "ScalingSpec",
    "SpnegoSpec",
    "SubjectsSpec",
    "TlsSpec",
    "TritonSpec",
    "TrustedProxy",
    "UnwellSpec",
    "UpdateSpec",
    "WindowSpec",
]

# ``instance.test_request: none``: no test request is ever sent.
NO_TEST = "none"
NAME = re.compile(r"[a-z0-9-]{1,40}")
NAME_WORDS = "1 to 40 small letters (a to z), digits and '-'"
_PROXY = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_HOST = re.compile(r"(?:[A-Za-z0-9][A-Za-z0-9._-]{0,252}|\[[0-9A-Fa-f:.]+\])(?::[0-9]{1,5})?")
_PROXY_WORDS = "1 to 64 letters, digits, '.', '_' and '-', the first a letter or digit"
_port = [ge(0), le(65535)]
# What ``--http-restricted-api`` of tritonserver may name.
RESTRICTABLE = (
    "health",
    "inference",
    "logging",
    "metadata",
    "model-config",
    "model-repository",
    "shared-memory",
    "statistics",
    "trace",
)


# A spec is shown in notebooks, logs and tracebacks, and any of these values may be a secret.
def _keys(values: Mapping[str, object]) -> str:
    return "{" + ", ".join(f"{key!r}: ..." for key in values) + "}"


def _without_user(uri: str) -> str:
    return repr(re.sub(r"//[^/@]*@", "//***@", uri))


@attrs.frozen
class Choice:
    """Which provider, and its settings; the provider's own class checks the settings."""

    use: str
    """Name of the provider."""
    options: Mapping[str, object] = attrs.field(factory=dict, hash=False, repr=_keys)
    """Settings of the provider: see below."""


@attrs.frozen
class ModelsSpec:
    """Which models, from where."""

    repository: str = attrs.field(repr=_without_user)
    """A bare path is mounted (checked, never created); a URI is copied. Empty: none is named yet,
    and only the surroundings are checked."""
    serve: tuple[str, ...] = ()
    """Models that an instance must serve to be ready; empty: all models that Triton lists."""
    require: str = attrs.field(default="any", validator=in_(("any", "all")))
    """``any``: ready with one model READY; ``all``: only with every one."""
    control: str = attrs.field(default="none", validator=in_(("none", "explicit")))
    """Triton's model control mode. ``poll`` is not offered: it unloads before it loads."""


@attrs.frozen
class CacheSpec:
    """Triton's response cache: answers that an instance keeps in its memory.

    It holds those of models whose configuration has ``response_cache { enable: true }``.
    """

    # Triton does not start with less than about 2 KB; the greatest is about what a machine has.
    size_mib: int = attrs.field(validator=[ge(1), le(1 << 24)])
    """Memory for the answers of one instance, part of ``instance.resources.memory``. Those that
    were unused for longest give way when it is full."""


@attrs.frozen
class TritonSpec:
    """How tritonserver is started."""

    image: str = "nvcr.io/nvidia/tritonserver:24.09-py3"
    """The image where containers are used."""
    binary: str | None = None
    """Local path of tritonserver; None: ``PATH``, then the wheel nvidia-pytriton."""
    http_port: int | None = attrs.field(default=None, validator=optional(_port))
    """0: a free port; None: 0 when local, else 8000. If the port is taken: the next free one."""
    grpc_port: int | None = attrs.field(default=None, validator=optional(_port))
    """As ``http_port``; 8001."""
    metrics_port: int | None = attrs.field(default=None, validator=optional(_port))
    """As ``http_port``; 8002."""
    bind: str | None = None
    """Address for all three services; None: 127.0.0.1 when local, else the node's own address."""
    args: Mapping[str, object] = attrs.field(factory=dict, hash=False, repr=_keys)
    """More options of tritonserver, without the leading dashes; they override TARN's own."""
    env: Mapping[str, str] = attrs.field(factory=dict, hash=False, repr=_keys)
    """More environment of tritonserver; passed byte for byte, never through a shell."""
    restricted: tuple[str, ...] = attrs.field(
        default=("logging", "model-repository", "shared-memory", "trace"),
        validator=deep_iterable(in_(RESTRICTABLE)),
    )
    """Parts of Triton's API that only the master may use: each instance is given a key for them.
    Clients on the same machine that pass tensors in shared memory need it without
    ``shared-memory``; from Triton 26.04 on also ``args: {allow-client-shm: true}``."""
    cache: CacheSpec | None = None
    """The response cache; None: no answer is kept."""
    exit_timeout_s: float = attrs.field(default=30.0, validator=gt(0))
    """How long Triton may finish in-flight inferences after SIGTERM."""


@attrs.frozen
class ResourcesSpec:
    """What one instance asks for."""

    vcores: int = attrs.field(default=2, validator=ge(1))
    """CPU cores of one instance."""
    memory_mib: int = attrs.field(default=4096, validator=gt(0))
    """Memory of one instance: Triton, its models and their Python processes."""
    gpus: int = attrs.field(default=0, validator=ge(0))
    """Accelerators of the kind ``gpu_resource``."""
    gpu_resource: str = "yarn.io/gpu"
    """YARN's name of the accelerator that ``gpus`` counts."""
    shm_mib: int | None = attrs.field(default=None, validator=optional(gt(0)))
    """Shared memory; None: computed from the python models."""


@attrs.frozen
class ParallelismSpec:
    """How many ranks make one instance: ``tensor`` times ``pipeline``."""

    tensor: int = attrs.field(default=1, validator=ge(1))
    """Ranks among which each layer is divided; more than 1 is not in this version."""
    pipeline: int = attrs.field(default=1, validator=ge(1))
    """Ranks among which the layers are divided; more than 1 is not in this version."""
    launch: str = attrs.field(default="auto", validator=in_(("auto", "ranks", "single")))
    """How the ranks are started: ``ranks``, a process each; ``single``, one process for all;
    ``auto``: as the model needs it."""

    @property
    def ranks(self) -> int:
        """Processes of one instance."""
        return self.tensor * self.pipeline


@attrs.frozen
class _AutoOrPositive:
    """A duration, or the word ``auto``."""

    right: str = "'auto' or more than 0s"

    def __call__(self, _instance: Any, field: "attrs.Attribute[Any]", value: float | str) -> None:
        if value != "auto" and (isinstance(value, str) or value <= 0):
            raise ValueError(f"{field.name} must be {self.right}")


@attrs.frozen
class UnwellSpec:
    """What TARN does when an instance passes its health checks but fails its users."""

    eject: bool = True
    """Take it out of the view, but never more than half of the ready ones, nor the last one."""
    replace: bool = True
    """Drain it and start another one, once a test request has confirmed it."""
    min_requests: int = attrs.field(default=20, validator=ge(1))
    """Fewest requests for a verdict; with fewer, no instance is suspected."""
    window_s: float = attrs.field(default=30.0, validator=gt(0))
    """The time span of the requests that count."""
    stalled_after_s: float | Literal["auto"] = attrs.field(
        default="auto", validator=_AutoOrPositive()
    )
    """Stalled: requests wait, and none was answered for this long. ``auto``: ten times the model's
    mean compute time, three times the longest that was seen, and at least 10 s."""


@attrs.frozen
class InstanceSpec:
    """One instance: its size, when it counts as dead, and when it is replaced."""

    resources: ResourcesSpec = attrs.field(factory=ResourcesSpec)
    parallelism: ParallelismSpec = attrs.field(factory=ParallelismSpec)
    start_timeout_s: float = attrs.field(default=900.0, validator=gt(0))
    """From process to ready; later it is failed and replaced."""
    unready_after_s: float = attrs.field(default=3.0, validator=gt(0))
    """Silent this long: out of the view."""
    replace_after_s: float = attrs.field(default=30.0, validator=gt(0))
    """Silent this long: killed and replaced."""
    warmup: str | None = None
    """Glob of JSON requests (relative to the repository's models) sent before it is ready."""
    unwell: UnwellSpec = attrs.field(factory=UnwellSpec)
    test_request: str | None = None
    """File with a JSON request that is sent to an instance suspected of failing its users, and the
    right answer to it; null: the warm-up request, or one of zeros where the model is safe for it;
    ``none``: none is ever sent."""
    max_age_s: float | None = attrs.field(default=None, validator=optional(gt(0)))
    """Older ones are replaced, one at a time, the replacement first; None: never for their age."""
    max_rss_mib: int | None = attrs.field(default=None, validator=optional(gt(0)))
    """Those whose processes hold more memory are replaced in the same way; None: never for it."""


@attrs.frozen
class ReplicasSpec:
    """How many instances."""

    min: int = attrs.field(default=1, validator=ge(0))
    """Fewest instances; with 0 the fleet may sleep, and requests that wait wake it."""
    max: int = attrs.field(default=10, validator=ge(0))
    """Most instances, at least ``min``."""
    initial: int | None = attrs.field(default=None, validator=optional(ge(0)))
    """At the first start; None: ``min``."""


@attrs.frozen
class PlacementSpec:
    """Where instances may go; a runtime without placement refuses what it cannot do."""

    tag: str = "nvidia"
    """Instances with the same tag avoid one another; ``scope`` says whose."""
    spread: str = attrs.field(default="node", validator=in_(("node", "none")))
    """``node``: at most one instance on a node; ``none``: as many as fit."""
    scope: str = attrs.field(default="all", validator=in_(("all", "cluster")))
    """Which instances ``spread`` counts: those of ``all`` clusters with this tag, or of this
    ``cluster``."""
    node_label: str = ""
    """YARN node label (partition) where instances run; empty: the one of the queue."""
    avoid_after_failures: int = attrs.field(default=3, validator=ge(1))
    """Failures in a row on one node after which it is avoided."""


@attrs.frozen
class WindowSpec:
    """How long back a scaling direction looks."""

    window_s: float = attrs.field(default=0.0, validator=ge(0))
    """For how long a larger (``up``) or a smaller size (``down``) must be wanted before it is
    applied."""


@attrs.frozen
class ScalingSpec:
    """Which policy decides the size, and how fast it may change."""

    use: str = "fixed"
    """The scaling policy; ``target`` if ``replicas`` sets bounds and no policy is named."""
    options: Mapping[str, object] = attrs.field(factory=dict, hash=False)
    """Settings of the policy: see below."""
    up: WindowSpec = attrs.field(factory=WindowSpec)
    down: WindowSpec = attrs.field(factory=lambda: WindowSpec(300.0))
    cooldown_s: float = attrs.field(default=60.0, validator=ge(0))
    """Least time between two changes that the policy makes."""
    interval_s: float = attrs.field(default=1.0, validator=ge(0.1))
    """Between two scrapes and two decisions."""


@attrs.frozen
class DrainSpec:
    """How an instance leaves."""

    timeout_s: float = attrs.field(default=600.0, validator=ge(0))
    """After this, what still runs is cut, and counted in the receipt."""
    quiesce_s: float = attrs.field(default=2.0, validator=ge(0))
    """Time between the followers' acknowledgement and the check that no request is left."""


@attrs.frozen
class UpdateSpec:
    """How a new spec replaces an old one."""

    surge: int = attrs.field(default=1, validator=ge(0))
    """Instances above the size while some are replaced."""
    max_unavailable: int = attrs.field(default=0, validator=ge(0))
    """Instances of the size that may be missing while an update runs."""
    watch_s: float = attrs.field(default=10.0, validator=ge(0))
    """How long a new instance serves under watch before it counts, and the next old one leaves."""
    smoke: str | None = None
    """File with requests, written as for ``instance.test_request``, that an instance must answer
    before it is ready. A wrong answer undoes an update."""


@attrs.frozen
class MasterSpec:
    """The master's own container."""

    memory_mib: int = attrs.field(default=1024, validator=gt(0))
    """Memory of the master's container; counts on YARN only."""
    vcores: int = attrs.field(default=1, validator=ge(1))
    """CPU cores of the master's container; counts on YARN only."""
    max_attempts: int = attrs.field(default=10, validator=ge(1))
    """How often YARN starts a lost master again; YARN may lower it."""
    node_label: str = ""
    """YARN node label (partition) where the master runs; empty: the one of the queue."""
    fence_after_s: float = attrs.field(default=60.0, validator=gt(0))
    """If the runtime does not answer for this long, the master stops acting."""


@attrs.frozen
class TrustedProxy:
    """A part of the system that may speak for users: it proves itself with every request."""

    name: str = attrs.field(validator=matches_re(_PROXY), metadata={"right": _PROXY_WORDS})
    """The name in its proof: the common name of its certificate, or its short name in Kerberos.
    Logs and answers use this name."""
    address: str
    """From where it connects: an address or a network (``10.0.0.5``, ``10.0.0.0/24``)."""
    authenticated_by: str = attrs.field(
        default="mtls", validator=in_(("mtls", "token", "kerberos"))
    )
    """How it proves itself: by a client certificate, by its ``token``, or by a Kerberos ticket."""
    token: str | None = None
    """The token of a proxy that is authenticated by one: ``file:PATH`` or ``env:NAME``."""
    users: tuple[str, ...] = ("*",)
    """Users for whom it may speak, besides the members of *groups*; ``*``: for everybody."""
    groups: tuple[str, ...] = ()
    """Groups for whose members it may speak."""


@attrs.frozen
class TlsSpec:
    """HTTPS for the master's API: a certificate in PEM files, or in a Java keystore."""

    cert: str | None = None
    """PEM file of this machine, with the chain."""
    key: str | None = None
    """PEM file with the unencrypted private key; None: it is in *cert*."""
    keystore: str | None = None
    """Instead of both: a keystore of this machine with one private key."""
    keystore_type: str = attrs.field(default="JKS", validator=in_(("JKS", "PKCS12")))
    """The form of ``keystore``."""
    keystore_password_alias: str = "tarn.tls.keystore.password"  # noqa: S105 (a name)
    """The name of its password in one of ``secrets``."""
    client_ca: str | None = None
    """PEM file with the authority of client certificates; None: clients have no certificates."""
    ca: str | None = None
    """PEM file that TARN's clients trust for the master; None: *cert* itself, or its chain."""


@attrs.frozen
class SpnegoSpec:
    """Kerberos at the master's API."""

    keytab: str
    """File of this machine with the keys of ``HTTP/<host>`` for every host where a master may
    run."""


@attrs.frozen
class ApiSpec:
    """The master's HTTP API."""

    port: int = attrs.field(default=0, validator=_port)
    """0: a free one. If a fixed port is taken, the start fails before anything runs."""
    grpc_port: int = attrs.field(default=0, validator=_port)
    """Port for Triton's management requests over gRPC, opened when a load balancer needs it; 0: a
    free one."""
    token: str = "auto"  # noqa: S105 (a kind, not a secret)
    """``auto`` (generated), ``none``, ``file:PATH`` or ``env:NAME``."""
    spnego: SpnegoSpec | None = None
    tls: TlsSpec | None = None
    trusted_proxies: tuple[TrustedProxy, ...] = ()
    rate_limit: int = attrs.field(default=2000, validator=ge(1))
    """Requests a second from one address; beyond it the answer is 429. Requests of a trusted proxy
    count for the user whom they are about."""
    hosts: tuple[str, ...] = attrs.field(default=(), validator=deep_iterable(matches_re(_HOST)))
    """More names or addresses that lead to the master (a tunnel, an alias), with a port
    (``localhost:8080``) if it is not the master's."""


@attrs.frozen
class DiscoverySpec:
    """One way in which instances are found."""

    use: str
    """Name of the discovery: ``haproxy`` or ``zookeeper``, or one that a plugin brings."""
    options: Mapping[str, object] = attrs.field(factory=dict, hash=False)
    """Settings of the discovery: see below."""
    required: bool = False
    """A drain waits for its acknowledgement, or for that of its ``followers``. If the master itself
    runs it and cannot reach it in 30 s, the first start of a cluster fails."""


@attrs.frozen
class SubjectsSpec:
    """Users and groups."""

    users: tuple[str, ...] = ()
    """Short names, as a ticket or a trusted proxy proves them."""
    groups: tuple[str, ...] = ()
    """Names of groups, as the cluster's directory of users has them."""


@attrs.frozen
class FarmSpec:
    """One tenant's share of a pool."""

    name: str
    """Name of the tenant. Farms are not in this version."""
    type: str = "triton"
    """What the farm runs."""
    min: int = attrs.field(default=0, validator=ge(0))
    """Instances that the tenant is guaranteed."""
    max: int | None = attrs.field(default=None, validator=optional(ge(0)))
    """Most instances of the tenant; None: as many as the pool has."""
    scaledown_after_n_triggers: int = attrs.field(default=5, validator=ge(1))
    """How often a smaller size must be wanted before it is applied."""


@attrs.frozen
class LogSpec:
    """The master's log, and Triton's."""

    level: str = attrs.field(default="info", validator=in_(("debug", "info", "warning", "error")))
    """Lowest severity that the master logs."""
    format: str = attrs.field(default="text", validator=in_(("text", "json")))
    """Form of the master's log: lines of text, or one JSON object per line."""
    triton_max_size_mib: int = attrs.field(default=64, validator=gt(0))
    """A Triton log beyond this is rotated once; two are kept."""
    master_max_size_mib: int = attrs.field(default=64, validator=gt(0))
    """The same for the log of the masters."""


@attrs.frozen
class ClusterSpec:
    """One cluster. Only ``models`` must be given."""

    name: str = attrs.field(validator=matches_re(NAME), metadata={"right": NAME_WORDS})
    """Name of the cluster; left out: the name of the file's folder."""
    models: ModelsSpec
    triton: TritonSpec = attrs.field(factory=TritonSpec)
    instance: InstanceSpec = attrs.field(factory=InstanceSpec)
    replicas: ReplicasSpec = attrs.field(factory=ReplicasSpec)
    placement: PlacementSpec = attrs.field(factory=PlacementSpec)
    scaling: ScalingSpec = attrs.field(factory=ScalingSpec)
    drain: DrainSpec = attrs.field(factory=DrainSpec)
    update: UpdateSpec = attrs.field(factory=UpdateSpec)
    master: MasterSpec = attrs.field(factory=MasterSpec)
    runtime: Choice = attrs.field(factory=lambda: Choice("local"))
    """Where instances run: ``local``, on this machine, or ``yarn``."""
    api: ApiSpec = attrs.field(factory=ApiSpec)
    discovery: tuple[DiscoverySpec, ...] = ()
    authorizer: Choice = attrs.field(factory=lambda: Choice("none"))
    """Who decides what users may do with models: ``none`` allows everything, ``ranger`` asks
    Apache Ranger."""
    affinity: Choice = attrs.field(factory=lambda: Choice("auto"))
    """Which requests reach the same instance: ``auto``, those of a sequence, for models that keep
    sequences; ``header``, ``json``: also those with the same key; ``none``: no two."""
    admins: SubjectsSpec = attrs.field(factory=SubjectsSpec)
    """Who may do everything that the owner may, regardless of the authorizer."""
    viewers: SubjectsSpec = attrs.field(factory=SubjectsSpec)
    """Who may look at the fleet but change nothing, regardless of the authorizer."""
    secrets: tuple[Choice, ...] = ()
    """Stores of secrets that instances get as environment: ``jceks``, or one of a plugin."""
    farm: FarmSpec | None = None
    log: LogSpec = attrs.field(factory=LogSpec)
