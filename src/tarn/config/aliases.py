"""The options and environment variables of the Java TARN.

A row has the names of an option, the kind of its value, and the key of the spec that it sets.
`tarn.config.legacy` applies the rows, and the command line makes its options from them. The rows
are in the order of the Java TARN's own table.

These defaults (in ``tarn.domain.spec``) differ from the Java TARN's: local ports and the API's port
are free ones, not 8888; the API's token is generated, not off; ``scaling.use`` is ``fixed`` unless
an option of scaling is given; ``scaling.interval`` is 1 s, not 15 s; a fleet shrinks after
``scaling.down.window`` below the threshold (5 min, or the given cooldown), not at once;
``drain.timeout`` is 10 min, not 30 s; ``instance.start_timeout`` is 15 min, not 2 min; no model
repository is assumed, and no GPU is requested by default.
"""

from types import MappingProxyType

import attrs

from tarn.config.draft import ListItem, Step

__all__ = ["ALIASES", "Alias", "by_name"]


@attrs.frozen
class Alias:
    """One option of the Java TARN."""

    long: str | None
    """Name after ``--``; None: it is only an environment variable."""
    short: str | None
    env: str | None
    kind: str
    """``text``, ``integer``, ``number``, ``flag``, ``ms``, ``mb``, ``list`` or ``pairs``."""
    help: str
    to: tuple[Step, ...] = ()
    """The key of the spec that it sets; empty: `tarn.config.legacy` has a special rule."""
    part: str = ""
    """The later part that will implement it; ``-``: none will. Empty: it works."""
    note: str = ""
    """Why it is accepted without effect."""

    @property
    def is_flag(self) -> bool:
        """Whether it takes no value."""
        return self.kind == "flag"

    @property
    def multiple(self) -> bool:
        """Whether it may be given more than once."""
        return self.kind == "pairs"

    @property
    def declarations(self) -> tuple[str, ...]:
        """Its forms on a command line; empty for an environment variable."""
        if self.long is None:
            return ()
        also = (f"--{self.short}",) if self.short in {"tp", "pp"} else ()
        return (*([f"-{self.short}"] if self.short else ()), *also, f"--{self.long}")

    @property
    def key(self) -> str:
        """The name under which it is looked up."""
        return self.long or self.env or ""

    @property
    def target(self) -> str:
        """The dotted path of its key; empty if it sets none, or several."""
        text = ""
        for step in self.to:
            text += f"[{step.use}]" if isinstance(step, ListItem) else f".{step}"
        return text.removeprefix(".")


_DOCKER = ("runtime", "options", "docker")
_ZOOKEEPER = ("discovery", ListItem("zookeeper"))
_RANGER = ("authorizer", "options")
_THRESHOLD = ("scaling", "options")
_TLS = ("api", "tls")
_ACCELERATORS = "nvidia_gpu, amd_gpu, intel_gaudi, aws_neuron or cpu_only"

ALIASES: tuple[Alias, ...] = (
    Alias("model-repository", "m", "MODEL_REPOSITORY", "text",
          "Path or URI of the model repository", ("models", "repository")),
    Alias("image", "i", "TRITON_IMAGE", "text",
          "Image of Triton, where containers are used", ("triton", "image")),
    Alias("port", "p", "TRITON_PORT", "integer", "Triton's HTTP port", ("triton", "http_port")),
    Alias("grpc-port", "gp", "GRPC_PORT", "integer",
          "Triton's gRPC port", ("triton", "grpc_port")),
    Alias("metrics-port", "mp", "METRICS_PORT", "integer",
          "Triton's metrics port", ("triton", "metrics_port")),
    Alias("am-port", "ap", "AM_PORT", "integer", "Port of the master's API", ("api", "port")),
    Alias("address", "a", "BIND_ADDRESS", "text",
          "Address that Triton binds", ("triton", "bind")),
    Alias("token", "t", "TARN_TOKEN", "text",
          "API token (better: TARN_TOKEN, or api.token: file:PATH; arguments are visible in ps)"),
    Alias("tensor-parallelism", "tp", "TENSOR_PARALLELISM", "integer",
          "Tensor parallelism", ("instance", "parallelism", "tensor")),
    Alias("pipeline-parallelism", "pp", "PIPELINE_PARALLELISM", "integer",
          "Pipeline parallelism", ("instance", "parallelism", "pipeline")),
    Alias("secrets", "s", "SECRETS_PATH", "text",
          "JCEKS file with secrets", ("secrets", ListItem("jceks"), "options", "path")),
    Alias("placement-tag", "pt", "PLACEMENT_TAG", "text",
          "At most one instance with this tag on a node", ("placement", "tag")),
    Alias("docker-network", "dn", "DOCKER_NETWORK", "text",
          "Docker network", (*_DOCKER, "network")),
    Alias("docker-privileged", "dp", "DOCKER_PRIVILEGED", "flag",
          "Run privileged containers", (*_DOCKER, "privileged")),
    Alias("docker-delayed-removal", "ddr", "DOCKER_DELAYED_REMOVAL", "flag",
          "Keep ended containers for a while", (*_DOCKER, "delayed_removal")),
    Alias("docker-mounts", "dm", "DOCKER_MOUNTS", "list",
          "Docker mounts, separated by commas", (*_DOCKER, "mounts")),
    Alias("docker-ports", "dports", "DOCKER_PORTS", "list",
          "Docker port mappings, separated by commas", (*_DOCKER, "ports")),
    Alias("zk-ensemble", "ze", "ZK_ENSEMBLE", "text",
          "ZooKeeper servers: host:port, separated by commas",
          (*_ZOOKEEPER, "options", "ensemble")),
    Alias("zk-path", "zp", "ZK_PATH", "text",
          "Znode under which instances register", (*_ZOOKEEPER, "options", "path")),
    Alias("zk-required", None, "ZK_REQUIRED", "flag",
          "Refuse to start without ZooKeeper", (*_ZOOKEEPER, "required")),
    Alias("zk-jaas", None, "ZK_JAAS", "text",
          "Not in this version: ZooKeeper is not reached from a JVM"),
    Alias("ranger-service", "rs", "RANGER_SERVICE", "text",
          "Ranger service that authorizes", (*_RANGER, "service")),
    Alias("ranger-app-id", "ra", "RANGER_APP_ID", "text", "Ranger app id", (*_RANGER, "app_id")),
    Alias("ranger-audit", "raudit", "RANGER_AUDIT", "flag", "Ranger audit", (*_RANGER, "audit")),
    Alias("ranger-strict", None, "RANGER_STRICT", "flag",
          "Deny everything while Ranger does not answer", (*_RANGER, "strict")),
    Alias("jar", "j", None, "text", "Accepted; there is no jar",
          note="TARN has no jar of its own any more"),
    Alias("env", "e", None, "pairs", "Environment of Triton, NAME=VALUE", ("triton", "env")),
    Alias("scale-up", "su", "SCALE_UP_THRESHOLD", "number",
          "Load above which an instance is added, in (0, 1]", (*_THRESHOLD, "scale_up")),
    Alias("scale-down", "sd", "SCALE_DOWN_THRESHOLD", "number",
          "Load below which an instance is removed, in [0, 1)", (*_THRESHOLD, "scale_down")),
    Alias("min-instances", "min", "MIN_CONTAINERS", "integer",
          "Fewest instances", ("replicas", "min")),
    Alias("max-instances", "max", "MAX_CONTAINERS", "integer",
          "Most instances", ("replicas", "max")),
    Alias("cooldown", "c", "SCALE_COOLDOWN_MS", "ms",
          "Least time between two changes of size, in ms", ("scaling", "cooldown")),
    Alias("scale-mode", None, "SCALE_MODE", "text",
          "gpu_util, queue_depth or composite", (*_THRESHOLD, "mode")),
    Alias("queue-capacity-per-container", None, "QUEUE_CAPACITY_PER_CONTAINER", "integer",
          "Queued requests at which an instance is full", (*_THRESHOLD, "queue_capacity")),
    Alias("monitor-interval-ms", None, "MONITOR_INTERVAL_MS", "ms",
          "Time between two scaling decisions, in ms", ("scaling", "interval")),
    Alias("drain-timeout-ms", None, "DRAIN_TIMEOUT_MS", "ms",
          "Longest wait for running requests, in ms", ("drain", "timeout")),
    Alias("warmup-timeout-ms", None, "WARMUP_TIMEOUT_MS", "ms",
          "Longest time until an instance is ready, in ms", ("instance", "start_timeout")),
    Alias("warmup-poll-interval-ms", None, "WARMUP_POLL_INTERVAL_MS", "ms",
          "Time between two looks at readiness, in ms (at least 250)"),
    Alias("tls-enabled", None, "TLS_ENABLED", "flag", "Serve the API by HTTPS", _TLS),
    Alias("tls-keystore", None, "TLS_KEYSTORE_PATH", "text", "Keystore", (*_TLS, "keystore")),
    Alias("tls-keystore-type", None, "TLS_KEYSTORE_TYPE", "text",
          "JKS or PKCS12", (*_TLS, "keystore_type")),
    Alias("tls-keystore-password-alias", None, "TLS_KEYSTORE_PASSWORD_ALIAS", "text",
          "Secret that holds the keystore's password", (*_TLS, "keystore_password_alias")),
    Alias("openai-proxy-enabled", None, "OPENAI_PROXY_ENABLED", "flag",
          "Not in this version", part="-"),
    Alias("openai-proxy-port", None, "OPENAI_PROXY_PORT", "integer",
          "Not in this version", part="-"),
    Alias("otel-endpoint", None, "OTEL_EXPORTER_OTLP_ENDPOINT", "text",
          "Where traces go", part="OBSERVE"),
    Alias("quotas", None, "QUOTAS_PATH", "text", "Not in this version", part="-"),
    Alias("accelerator-type", None, "ACCELERATOR_TYPE", "text",
          _ACCELERATORS, ("instance", "resources", "gpu_resource")),
    Alias("gpu-slice-size", None, "GPU_SLICE_SIZE", "text",
          "MIG profile such as 1g.10gb", ("instance", "resources", "gpu_resource")),
    Alias("shadow-endpoint", None, "SHADOW_ENDPOINT", "text", "Not in this version", part="-"),
    Alias("shadow-sample-rate", None, "SHADOW_SAMPLE_RATE", "number",
          "Not in this version", part="-"),
    Alias("client-port", "cp", "CLIENT_PORT", "integer", "Accepted; the client has no port",
          note="the client serves nothing any more; ask the master's /health"),
    Alias(None, None, "CONTAINER_MEMORY", "mb",
          "Memory of an instance, in MB", ("instance", "resources", "memory")),
    Alias(None, None, "CONTAINER_VCORES", "integer",
          "Cores of an instance", ("instance", "resources", "vcores")),
)  # fmt: skip
"""Every row, in the order of the Java TARN's own table."""

by_name = MappingProxyType(
    {alias.key: alias for alias in ALIASES}
    | {alias.short: alias for alias in ALIASES if alias.short in {"tp", "pp"}}
)
"""Row by long name, and by ``tp`` and ``pp``."""
