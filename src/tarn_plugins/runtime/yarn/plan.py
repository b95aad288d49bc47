"""What a start on YARN would do, without asking anybody."""

from collections.abc import Mapping

from tarn.domain import ClusterSpec, Endpoint, Launch
from tarn.interfaces import ClientContext, LaunchPlan, Staged
from tarn.triton.command import argv
from tarn_plugins.runtime.yarn import Settings
from tarn_plugins.runtime.yarn.layout import Layout

__all__ = ["foresee", "master_command", "master_environ"]

HTTP_PORT, GRPC_PORT, METRICS_PORT = 8000, 8001, 8002
"""Where Triton listens when the spec says nothing; a node that has one taken gets the next."""
MODELS = "models"
"""The repository's name in an instance's directory, once the node has brought it there."""


def foresee(
    spec: ClusterSpec, staged: Staged, settings: Settings, context: ClientContext, python: str
) -> LaunchPlan:
    """Return command, environment and files of the first instance; writes nothing."""
    triton = spec.triton
    here = staged.location if staged.kind != "localize" else MODELS
    launch = Launch(spec.models, triton, spec.instance, here, "")
    command = argv(
        launch,
        Endpoint(
            "node",
            _port(triton.http_port, HTTP_PORT),
            _port(triton.grpc_port, GRPC_PORT),
            _port(triton.metrics_port, METRICS_PORT),
        ),
        triton.binary or "tritonserver",
        bind=triton.bind or "0.0.0.0",  # noqa: S104 (an instance is there to be reached)
        server_id=f"{spec.name}-0001",
    )
    chosen = {f"--{service}-port=0" for service in ("http", "grpc", "metrics")}
    words = tuple(f"{w.removesuffix('0')}free" if w in chosen else w for w in command)
    return LaunchPlan(
        commands=(words,) * spec.instance.parallelism.ranks,
        environ=dict(triton.env),
        files=_files(spec, staged, settings, context, python),
    )


def master_command(python: str) -> list[str]:
    """Return the arguments of the master; ``-P``: no file of its directory shadows a module."""
    return [python, "-P", "-m", "tarn.master", ".", "--runtime", "yarn"]


def master_environ(settings: Settings) -> dict[str, str]:
    """Return the master's environment, beside what the node gives it. Free of secrets."""
    named = {"HADOOP_HOME": settings.hadoop_home, "JAVA_HOME": settings.java_home}
    return {
        "MALLOC_ARENA_MAX": "2",
        "PYTHONUNBUFFERED": "1",
        **{name: value for name, value in named.items() if value},
    }


def _files(
    spec: ClusterSpec, staged: Staged, settings: Settings, context: ClientContext, python: str
) -> Mapping[str, str]:
    layout = Layout(f"{(settings.staging or '~/.tarn').rstrip('/')}/{spec.name}")
    local = context.paths.cluster(spec.name)
    token = {} if spec.api.token == "none" else {"api token": str(local / "api_token")}  # noqa: S105 (a kind)
    return {
        "models": staged.location,
        "interpreter of the master": python,
        "staging directory": layout.root,
        "files of the master": layout.public,
        "launch files and state": layout.private,
        "cluster": str(local),
        "spec": str(local / "spec.yaml"),
        **token,
    }


def _port(wanted: int | None, default: int) -> int:
    return default if wanted is None else wanted
