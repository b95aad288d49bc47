"""One instance on one node: its arguments and its environment. Pure."""

import hashlib
from collections.abc import Mapping, Sequence

import attrs

from tarn.domain import Launch
from tarn.triton.command import argv
from tarn_plugins.runtime.yarn import Docker
from tarn_plugins.runtime.yarn.launch import docker
from tarn_plugins.runtime.yarn.launch.docker_rules import HOST, REPOSITORY
from tarn_plugins.runtime.yarn.launch.run_script import MODELS
from tarn_plugins.runtime.yarn.messages import ContainerRecord

__all__ = ["ContainerProgram", "localized", "needs_address", "program", "shm_prefix"]

INSTANCE_VARIABLE = "TARN_INSTANCE"
"""Tells a person on the node which instance a process is."""
_ANY = "0.0.0.0"  # noqa: S104 (a Docker network of its own: the node's address is not in it)
_START = ("-P", "-m", "tarn.triton.start")
"""``-P``: the container's directory, which the models share, is nothing to import from."""

_YARNS_OWN = (
    "HADOOP_TOKEN_FILE_LOCATION",
    "KEYSTORE_FILE_LOCATION",
    "KEYSTORE_PASSWORD",
    "TRUSTSTORE_FILE_LOCATION",
    "TRUSTSTORE_PASSWORD",
)
"""What YARN sets for programs that talk to Hadoop: Triton does not, and its models need not know
where the owner's delegation tokens lie."""


@attrs.frozen
class ContainerProgram:
    """What one container runs."""

    argv: Sequence[str] = attrs.field(repr=False)
    """For the launch file: it holds the instance's key, if parts of Triton are restricted."""
    environ: Mapping[str, str | None] = attrs.field(hash=False, repr=False)
    """For the launch file: it may hold secrets. None takes a variable of YARN's away."""
    container: Mapping[str, str] = attrs.field(hash=False)
    """For YARN: without a secret, and without anything that a shell could expand."""
    shown_at: str = ""
    """A directory in which every localized model is to be seen; empty: nowhere but in ``models``.
    """


def localized(launch: Launch) -> bool:
    """Say whether YARN brings the repository; else the nodes have it mounted."""
    return "://" in launch.repository


def needs_address(launch: Launch, within: Docker | None) -> bool:
    """Say whether `program` wants the node's address: nobody said where to listen."""
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
    """Return what *record*'s container runs.

    Several NodeManagers may share one machine, and so its ports: unless ``triton.bind`` says
    otherwise, an instance listens at its own node's address only.

    Args:
        launch: What to serve, and how.
        record: The instance, its container, and its ports.
        address: IP address of its node; read where `needs_address` says so.
        python: Interpreter on the nodes that starts tritonserver where there is no image.
        within: How the image is started; None: as a plain process of the node.

    Raises:
        LaunchError: A setting of Docker's cannot be passed on (final).
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
        container=_variables(launch, record, within) if within else {},
        shown_at=REPOSITORY if within and localized(launch) else "",
    )


def _variables(launch: Launch, record: ContainerRecord, within: Docker) -> Mapping[str, str]:
    return docker.environment(within, launch, record.container_id, record.endpoint)


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
    if within is not None:  # an image knows its own: triton.binary is a path of the node
        return ["tritonserver", *command[1:]]
    binary = launch.triton.binary
    given = [] if binary is None else [f"--tritonserver={binary}"]
    return [python, *_START, *given, *command[1:]]


def shm_prefix(record: ContainerRecord) -> str:
    """Return how the names of its shared memory begin: containers of a node share ``/dev/shm``."""
    of = hashlib.sha256(record.container_id.encode()).hexdigest()[:8]
    return f"tarn_{of}_{record.instance_id}_"
