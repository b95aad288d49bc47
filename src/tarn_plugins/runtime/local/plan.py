"""What a start on this machine would do, without doing it."""

from pathlib import Path

from tarn.domain import ClusterSpec, Endpoint, Launch
from tarn.errors import LaunchError
from tarn.interfaces import ClientContext, LaunchPlan, Staged
from tarn.triton import binary
from tarn.triton.command import argv
from tarn.triton.restricted import PLANNED
from tarn_plugins.runtime.local.environment import LOOPBACK, environment, shm_prefix

__all__ = ["foresee"]

_PORTS = tuple(f"--{service}-port=0" for service in ("http", "grpc", "metrics"))


def foresee(spec: ClusterSpec, staged: Staged, context: ClientContext) -> LaunchPlan:
    """Return command, environment and files of the first instance; writes nothing.

    Without a tritonserver its bare name stands in the command: `Deployer.check` says that.
    """
    directory, instance_id = context.paths.cluster(spec.name), f"{spec.name}-0001"
    try:
        program = binary.foresee(spec.triton.binary, context.environ, context.paths.cache)
    except LaunchError:
        program = binary.TritonProgram("tritonserver")
    launch = Launch(spec.models, spec.triton, spec.instance, staged.location, "", keys=PLANNED)
    triton = spec.triton
    ports = (port or 0 for port in (triton.http_port, triton.grpc_port, triton.metrics_port))
    command = argv(
        launch,
        Endpoint(LOOPBACK, *ports),
        program.path,
        bind=triton.bind or LOOPBACK,
        server_id=instance_id,
        backend_directory=program.backend_directory,
        shm_prefix=shm_prefix(directory, instance_id),
    )
    free = tuple(w.removesuffix("0") + "free" if w in _PORTS else w for w in command)
    chosen = tuple(["free"] * spec.instance.resources.gpus)
    return LaunchPlan(
        commands=(free,),
        environ=environment(
            launch,
            instance_id=instance_id,
            directory=directory,
            program=program,
            gpus=chosen,
            inherited={},
        ),
        files=_files(spec, directory, instance_id, staged),
    )


def _files(spec: ClusterSpec, directory: Path, instance_id: str, staged: Staged) -> dict[str, str]:
    logs = directory / "logs"
    token = {} if spec.api.token == "none" else {"api token": str(directory / "api_token")}  # noqa: S105 (a kind)
    return {
        "models": staged.location,
        "cluster": str(directory),
        "spec": str(directory / "spec.yaml"),
        **token,
        "state": str(directory / "state-*.json"),
        "log of the master": str(logs / "master.log"),
        "log of the first instance": str(logs / instance_id / "triton.stderr"),
    }
