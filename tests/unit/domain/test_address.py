"""Host and port: an address of IPv6 has brackets wherever a port follows it."""

import pytest

from tarn.client.targets import parse
from tarn.domain import Endpoint
from tarn.domain.endpoint import apart, bracketed, host_port
from tarn.follow.views import asked
from tarn.testing.context import cluster_spec, launch_of
from tarn.triton.command import argv
from tarn_plugins.runtime.yarn.client.reports import ApplicationReport, ref_of

HERE = Endpoint("fd00::1", 8000, 8001, 8002)


@pytest.mark.parametrize(
    ("host", "together"),
    [
        ("nm1", "nm1:8000"),
        ("10.0.0.1", "10.0.0.1:8000"),
        ("::1", "[::1]:8000"),
        ("fd00::1", "[fd00::1]:8000"),
        ("[::1]", "[::1]:8000"),
    ],
)
def test_what_is_put_together_comes_apart(host: str, together: str) -> None:
    """Names, addresses of both versions, and one that has its brackets already."""
    assert host_port(host, 8000) == together
    assert apart(together) == (host.strip("[]"), "8000")
    assert bracketed(host) in together


def test_an_endpoint_is_read_back_as_it_was_shown() -> None:
    """By an agent, which gets the master's rows, and by a client, which is given an address."""
    assert (HERE.http, HERE.grpc) == ("[fd00::1]:8000", "[fd00::1]:8001")
    row = {
        "id": "x-0001",
        "container_id": None,
        "spec_hash": "a",
        "weight": 100,
        "in_view": True,
        "http": HERE.http,
        "grpc": HERE.grpc,
        "metrics": HERE.metrics,
    }
    view = asked({"epoch": "1-1", "revision": 1, "complete": True, "instances": [row]})
    assert [member.endpoint for member in view.members] == [HERE]
    assert parse(HERE.http).address == HERE.http
    assert parse(f"http://{HERE.http}/").host == "fd00::1"


def test_a_master_on_yarn_has_a_url_that_can_be_asked() -> None:
    """YARN tells the bare host that was registered."""
    report = ApplicationReport(
        "application_1_1", "RUNNING", host="fd00::1", port=8443, own_url="https://x", submitted_ms=1
    )
    assert ref_of(report, "x").url == "https://[fd00::1]:8443"


def test_each_server_of_triton_gets_an_address_of_ipv6_in_its_own_form() -> None:
    """Seen on Triton 2.51: with brackets its HTTP servers listen at 255.255.255.255."""
    line = argv(launch_of(cluster_spec()), HERE, "tritonserver", bind="::1")
    assert [word for word in line if "-address=" in word] == [
        "--http-address=ipv6:::1",
        "--grpc-address=[::1]",
        "--metrics-address=ipv6:::1",
    ]
