"""What no tritonserver can be started with: where it should listen."""

import attrs
import pytest

from tarn.domain.spec import ClusterSpec, ModelsSpec, TritonSpec
from tarn.triton import command

SPEC = ClusterSpec("a", ModelsSpec("/m"))


@pytest.mark.parametrize(
    "bind", ["999.1.1.1", "1.2.3", "300", "[::1]", "a b", "", "-x", "10.0.0.5:8000", "a..b", "a/b"]
)
def test_an_address_that_is_none_is_refused_in_every_runtime(bind: str) -> None:
    """Also where the nodes are elsewhere and nothing can be tried."""
    spec = attrs.evolve(SPEC, triton=TritonSpec(bind=bind))
    (found,) = (one for one in command.findings(spec, "") if one.where.startswith("triton.bind"))
    assert (found.code, found.where) == ("TARN-2002", f"triton.bind = '{bind}'")


@pytest.mark.parametrize(
    "bind", ["0.0.0.0", "::", "::1", "fd00::1", "10.0.0.5", "node-7.example.com", "n7.", "0a", None]
)
def test_an_address_or_a_name_is_taken(bind: str | None) -> None:
    """Whether there is such a host is not a matter of its form."""
    spec = attrs.evolve(SPEC, triton=TritonSpec(bind=bind))
    assert not [one for one in command.findings(spec, "") if "bind" in one.where]
