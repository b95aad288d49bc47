"""An instance on a node: its command line, its environment, and its ports. Pure."""

import hashlib
from collections.abc import Mapping, Sequence

import attrs

from tarn.domain import ClusterSpec, Endpoint, Launch
from tarn.domain.spec import TritonSpec
from tarn.errors import LaunchError
from tarn.interfaces import ClientContext, LaunchPlan, Staged
from tarn.triton.command import argv
from tarn.triton.restricted import PLANNED
from tarn_plugins.runtime.yarn import Docker, YarnSettings, environment
from tarn_plugins.runtime.yarn.launch import docker
from tarn_plugins.runtime.yarn.launch.docker import HOST, REPOSITORY
from tarn_plugins.runtime.yarn.launch.launch_file import MODELS
from tarn_plugins.runtime.yarn.messages import ContainerRecord
from tarn_plugins.runtime.yarn.staging import HOME, Layout

__all__ = ["foresee", "localized", "needs_address", "program", "wanted_ports"]

_CHOSEN = frozenset(f"--{service}-port=0" for service in ("http", "grpc", "metrics"))
_ADDRESS = "<address of the node>"
# Shows a person on the node to which instance a process belongs.
INSTANCE_VARIABLE = "TARN_INSTANCE"
_ANY = "0.0.0.0"  # noqa: S104 (a Docker network does not have the node's address)
# ``-P``: without it, Python would import from the container's directory, which models share.
_START = ("-P", "-m", "tarn.triton.start")

# Variables of YARN for programs that use Hadoop. Triton does not, and its models need not know the
# place of the owner's delegation tokens.
_YARNS_OWN = (
    "HADOOP_TOKEN_FILE_LOCATION",
    "KEYSTORE_FILE_LOCATION",
    "KEYSTORE_PASSWORD",
    "TRUSTSTORE_FILE_LOCATION",
    "TRUSTSTORE_PASSWORD",
)

# Triton's default ports; if a node has one in use, the next set is taken.
_DEFAULTS = (8000, 8001, 8002)


@attrs.frozen
class ContainerProgram:
    """The program of a container."""

    argv: Sequence[str] = attrs.field(repr=False)
    """For the launch file, since it has the instance's key if Triton's protocols are restricted."""
    environ: Mapping[str, str | None] = attrs.field(hash=False, repr=False)
    """For the launch file, since it may contain secrets. None unsets a variable of YARN."""
    container: Mapping[str, str] = attrs.field(hash=False)
    """For YARN: without secrets, and without anything that a shell could expand."""
    shown_at: str = ""
    """A directory for links to localized models; empty: they are only in ``models``."""


def localized(launch: Launch) -> bool:
    """Return whether YARN localizes the repository; else the nodes have it."""
    return "://" in launch.repository


def needs_address(launch: Launch, within: Docker | None) -> bool:
    """Return whether `program` needs the node's address, since no other one is set."""
    own_network = within is not None and within.network != HOST
    return launch.triton.bind is None and not own_network


def program(
    launch: Launch,
    record: ContainerRecord,
    *,
    address: str | None,
    python: str,
    within: Docker | None,
) -> ContainerProgram:
    """Return the program of *record*'s container.

    Unless ``triton.bind`` is set, an instance listens only on its node's address, since several
    NodeManagers may share a machine, and so its ports.

    Args:
        launch: What to serve, and how.
        record: The instance, its container, and its ports.
        address: IP address of its node; needed if `needs_address` returns True.
        python: Interpreter on the nodes, which starts tritonserver without an image.
        within: How the image is started; None: as a plain process of the node.

    Raises:
        LaunchError: A setting of Docker is not possible (final).
    """
    command = argv(
        attrs.evolve(launch, repository=_repository(launch, within)),
        record.endpoint,
        launch.triton.binary or "tritonserver",
        bind=_bind(launch, address, within),
        server_id=record.instance_id,
        shm_prefix=shm_prefix(record),
    )
    return ContainerProgram(
        argv=_started(command, launch, python, within),
        environ={
            **dict.fromkeys(_YARNS_OWN),
            INSTANCE_VARIABLE: record.instance_id,
            **launch.triton.env,
            **{name: secret.reveal() for name, secret in launch.secrets.items()},
        },
        container={}
        if within is None
        else docker.environment(within, launch, record.container_id, record.endpoint),
        shown_at=REPOSITORY if within and localized(launch) else "",
    )


def _repository(launch: Launch, within: Docker | None) -> str:
    """Return where Triton finds the models."""
    if within is not None:
        return REPOSITORY
    return MODELS if localized(launch) else launch.repository


def _bind(launch: Launch, address: str | None, within: Docker | None) -> str:
    if not needs_address(launch, within):
        return launch.triton.bind or _ANY
    assert address is not None
    return address


def _started(
    command: Sequence[str], launch: Launch, python: str, within: Docker | None
) -> Sequence[str]:
    if within is not None:  # the image's own; triton.binary is a path of the node
        return ["tritonserver", *command[1:]]
    binary = launch.triton.binary
    given = [] if binary is None else [f"--tritonserver={binary}"]
    return [python, *_START, *given, *command[1:]]


def shm_prefix(record: ContainerRecord) -> str:
    """Return the prefix of its shared memory, unique among containers of a node."""
    of = hashlib.sha256(record.container_id.encode()).hexdigest()[:8]
    return f"tarn_{of}_{record.instance_id}_"


def wanted_ports(triton: TritonSpec) -> tuple[int, int, int]:
    """Return the HTTP, gRPC and metrics ports of a first instance; 0: any free one."""
    given = (triton.http_port, triton.grpc_port, triton.metrics_port)
    http, grpc, metrics = (
        default if port is None else port for port, default in zip(given, _DEFAULTS, strict=True)
    )
    return http, grpc, metrics


def foresee(
    spec: ClusterSpec, staged: Staged, settings: YarnSettings, context: ClientContext, python: str
) -> LaunchPlan:
    """Return command, environment and files of the first instance; write nothing."""
    launch = Launch(spec.models, spec.triton, spec.instance, staged.location, "", keys=PLANNED)
    try:
        first = program(
            launch, _first_record(spec), address=_ADDRESS, python=python, within=settings.docker
        )
    except LaunchError:  # a setting of Docker, which `check` reports
        first = program(launch, _first_record(spec), address=_ADDRESS, python=python, within=None)
    named = {name: value for name, value in first.environ.items() if value is not None}
    words = tuple(w.removesuffix("=0") + "=free" if w in _CHOSEN else w for w in first.argv)
    return LaunchPlan(
        commands=(words,) * spec.instance.parallelism.ranks,
        environ={**first.container, **named},
        files=_planned_files(spec, staged, settings, context, python),
    )


def _planned_files(
    spec: ClusterSpec, staged: Staged, settings: YarnSettings, context: ClientContext, python: str
) -> Mapping[str, str]:
    staging = settings.staging or f"<your home on Hadoop>/{HOME}"
    layout = Layout(f"{staging.rstrip('/')}/{spec.name}")
    local = context.paths.cluster(spec.name)
    packed = environment.is_packed(settings.python)
    token = {} if spec.api.token == "none" else {"api token": str(local / "api_token")}  # noqa: S105 (a kind)
    return {
        "models": staged.location,
        "interpreter of the master": python,
        **({"packed environment": settings.python or ""} if packed else {}),
        "staging directory": layout.root,
        "files of the master": layout.public,
        "launch files and state": layout.private,
        "cluster": str(local),
        "spec": str(local / "spec.yaml"),
        **token,
    }


def _first_record(spec: ClusterSpec) -> ContainerRecord:
    """Return the record of the first instance, with placeholders."""
    return ContainerRecord(
        instance_id=f"{spec.name}-0001",
        number=1,
        container_id="container",
        spec_hash="",
        node="node",
        endpoint=Endpoint("node", *wanted_ports(spec.triton)),
        started_at=0.0,
    )
