"""44: the Java TARN's gRPC listened on every address, whatever was asked."""

from pathlib import Path

import attrs
import pytest

from tarn.interfaces import Staged
from tarn.testing.context import client_context, cluster_spec
from tarn_plugins.runtime.local import tarn_runtimes


@pytest.mark.parametrize(("bind", "address"), [(None, "127.0.0.1"), ("10.1.2.3", "10.1.2.3")])
def test_all_three_services_listen_where_they_were_told(
    tmp_path: Path, bind: str | None, address: str
) -> None:
    """Locally that is this machine alone, unless somebody asks for more."""
    local = tarn_runtimes()["local"]
    spec = cluster_spec()
    spec = attrs.evolve(spec, triton=attrs.evolve(spec.triton, bind=bind))
    deployer = local.deployer(local.settings(), client_context(tmp_path))
    (command,) = deployer.plan(spec, Staged("/models", "in_place")).commands
    for service in ("http", "grpc", "metrics"):
        assert f"--{service}-address={address}" in command


@pytest.mark.parametrize("option", ["--http-restricted-api", "--grpc-restricted-protocol"])
def test_what_changes_a_server_wants_a_key(tmp_path: Path, option: str) -> None:
    """Unless somebody opens it; the plan shows the option, and nobody's real key."""
    local = tarn_runtimes()["local"]
    deployer = local.deployer(local.settings(), client_context(tmp_path))
    spec = cluster_spec()
    (command,) = deployer.plan(spec, Staged("/models", "in_place")).commands
    (found,) = [word for word in command if word.startswith(f"{option}=")]
    assert found.startswith(f"{option}=logging,model-repository,shared-memory,trace:tarn-key=")
    opened = attrs.evolve(spec, triton=attrs.evolve(spec.triton, restricted=()))
    (command,) = deployer.plan(opened, Staged("/models", "in_place")).commands
    assert not [word for word in command if word.startswith(option)]
