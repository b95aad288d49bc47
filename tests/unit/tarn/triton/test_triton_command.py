"""tritonserver's command line."""

import pytest

from tarn.domain import Endpoint, Launch
from tarn.domain.spec import InstanceSpec, ModelsSpec, ResourcesSpec, TritonSpec
from tarn.triton.command import argv

ENDPOINT = Endpoint("10.0.0.7", 8000, 8001, 8002)


def line(
    models: ModelsSpec | None = None, *, gpus: int = 0, shm: str = "", **triton: object
) -> list[str]:
    launch = Launch(
        models or ModelsSpec("/m"),
        TritonSpec(**triton),
        InstanceSpec(ResourcesSpec(gpus=gpus)),
        "/m",
        "h",
    )
    return argv(launch, ENDPOINT, "tritonserver", bind="127.0.0.1", shm_prefix=shm)


def test_the_whole_line_of_a_plain_instance():
    """Each option once, as one argument; the readiness is the master's to decide."""
    assert line() == [
        "tritonserver",
        "--model-repository=/m",
        "--exit-on-error=false",
        "--strict-readiness=false",
        "--model-control-mode=none",
        "--http-address=127.0.0.1",
        "--http-port=8000",
        "--grpc-address=127.0.0.1",
        "--grpc-port=8001",
        "--metrics-address=127.0.0.1",
        "--metrics-port=8002",
        "--allow-metrics=true",
        "--allow-gpu-metrics=false",
        "--metrics-interval-ms=1000",
        "--pinned-memory-pool-byte-size=0",
        "--exit-timeout-secs=30",
    ]


def test_gpus_bring_their_metrics_and_pinned_memory():
    """Triton's own pool size is kept then."""
    with_gpus = line(gpus=1)
    assert "--allow-gpu-metrics=true" in with_gpus
    assert not any("pinned" in option for option in with_gpus)


@pytest.mark.parametrize(
    ("serve", "loads"),
    [((), ["--load-model=*"]), (("a", "b"), ["--load-model=a", "--load-model=b"])],
)
def test_explicit_control_loads_what_is_served(serve, loads):
    """Everything when nothing is named."""
    options = line(ModelsSpec("/m", serve=serve, control="explicit"))
    assert [o for o in options if o.startswith("--load-model")] == loads


def test_without_explicit_control_nothing_is_loaded_by_name():
    """Triton loads the whole repository then."""
    assert not any("load-model" in o for o in line(ModelsSpec("/m", serve=("a",))))


def test_a_persons_arguments_win():
    """In place of ours, also with dashes or underscores; None drops ours."""
    options = line(
        args={
            "--metrics-interval-ms": 250,
            "strict_readiness": True,
            "allow-metrics": None,
            "disable-auto-complete-config": True,
            "trace-config": ["level=TIMESTAMPS", "rate=5"],
        }
    )
    assert "--metrics-interval-ms=250" in options
    assert "--metrics-interval-ms=1000" not in options
    assert "--strict-readiness=true" in options
    assert "--strict-readiness=false" not in options
    assert not any(o.startswith("--allow-metrics") for o in options)
    assert "--disable-auto-complete-config" in options
    assert [o for o in options if "trace" in o] == [
        "--trace-config=level=TIMESTAMPS",
        "--trace-config=rate=5",
    ]


def test_backend_settings_are_added_key_by_key():
    """Ours stay unless the same key is given."""
    added = line(shm="mine_", args={"backend-config": "python,grow=1"})
    assert [o for o in added if "backend-config" in o] == [
        "--backend-config=python,shm-region-prefix-name=mine_",
        "--backend-config=python,grow=1",
    ]
    replaced = line(shm="mine_", args={"backend-config": "python,shm-region-prefix-name=x"})
    assert [o for o in replaced if "backend-config" in o] == [
        "--backend-config=python,shm-region-prefix-name=x"
    ]


def test_a_part_of_a_second_rounds_up_and_nothing_is_shell():
    """Triton takes whole seconds; a value with spaces and quotes stays one argument."""
    options = line(exit_timeout_s=0.2, args={"id": "a b; $(rm -rf /) '\""})
    assert "--exit-timeout-secs=1" in options
    assert "--id=a b; $(rm -rf /) '\"" in options
