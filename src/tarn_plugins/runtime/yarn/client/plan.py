"""What a start on YARN would do, without asking anybody."""

from collections.abc import Mapping

from tarn.domain import ClusterSpec, Endpoint, Launch
from tarn.errors import LaunchError
from tarn.interfaces import ClientContext, LaunchPlan, Staged
from tarn.triton.restricted import PLANNED
from tarn_plugins.runtime.yarn import YarnSettings, environment
from tarn_plugins.runtime.yarn.container import HEAP_VARIABLE, JAVA_VARIABLE, heap_mib
from tarn_plugins.runtime.yarn.launch.instance import program
from tarn_plugins.runtime.yarn.launch.ports import wanted_ports
from tarn_plugins.runtime.yarn.layout import HOME, Layout
from tarn_plugins.runtime.yarn.messages import ContainerRecord

__all__ = ["foresee", "master_command", "master_environ"]

_CHOSEN = frozenset(f"--{service}-port=0" for service in ("http", "grpc", "metrics"))
_ADDRESS = "<address of the node>"


def foresee(
    spec: ClusterSpec, staged: Staged, settings: YarnSettings, context: ClientContext, python: str
) -> LaunchPlan:
    """Return command, environment and files of the first instance; writes nothing."""
    launch = Launch(spec.models, spec.triton, spec.instance, staged.location, "", keys=PLANNED)
    try:
        first = program(
            launch, _record(spec), address=_ADDRESS, python=python, within=settings.docker
        )
    except LaunchError:  # a setting of Docker's: `check` says which
        first = program(launch, _record(spec), address=_ADDRESS, python=python, within=None)
    named = {name: value for name, value in first.environ.items() if value is not None}
    words = tuple(w.removesuffix("=0") + "=free" if w in _CHOSEN else w for w in first.argv)
    return LaunchPlan(
        commands=(words,) * spec.instance.parallelism.ranks,
        environ={**first.container, **named},
        files=_files(spec, staged, settings, context, python),
    )


def master_command(python: str) -> list[str]:
    """Return the arguments of the master; ``-P``: no file of its directory shadows a module."""
    return [python, "-P", "-m", "tarn.master", ".", "--runtime", "yarn"]


def master_environ(settings: YarnSettings, memory_mib: int) -> dict[str, str]:
    """Return the environment of a master of *memory_mib*, besides what its node gives it.

    Free of secrets: everybody may read it.
    """
    named = {
        "HADOOP_HOME": settings.hadoop_home,
        "JAVA_HOME": settings.java_home,
        JAVA_VARIABLE: settings.java_home,
    }
    return {
        "MALLOC_ARENA_MAX": "2",
        "PYTHONUNBUFFERED": "1",
        HEAP_VARIABLE: str(heap_mib(memory_mib)),
        **{name: value for name, value in named.items() if value},
    }


def _files(
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


def _record(spec: ClusterSpec) -> ContainerRecord:
    """Return the first instance, as far as it is known before YARN was asked."""
    return ContainerRecord(
        instance_id=f"{spec.name}-0001",
        number=1,
        container_id="container",
        spec_hash="",
        node="node",
        endpoint=Endpoint("node", *wanted_ports(spec.triton)),
        started_at=0.0,
    )
