"""What TARN keeps in ZooKeeper, and what a stranger may have put there."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kazoo.hosts import collect_hosts

from tarn.domain import Endpoint, Epoch, Member
from tarn.errors import ConfigError
from tarn.testing.strategies import endpoints, epochs, instance_ids, texts
from tarn.zk.nodes import (
    FleetNode,
    InstanceNode,
    check_ensemble,
    check_path,
    fleet_path,
    instance_payload,
    parse_payload,
    valid_name,
)

_counts = st.integers(0, 10**9)
_texts = st.text(min_size=1)
_anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)
_near = st.fixed_dictionaries(
    {},
    optional={
        key: _anything | st.sampled_from(("1-1", "h:1", "http://h:1", 3))
        for key in (
            *("url", "grpc", "metrics", "epoch", "revision", "cluster", "instance", "weight"),
            *("count", "api_url", "nodes", "owner"),
        )
    },
)
_garbage = st.binary() | (_anything | _near).map(lambda plain: json.dumps(plain).encode())


@given(st.builds(FleetNode, epochs, _counts, _counts, texts, st.lists(_texts).map(tuple), texts))
def test_a_fleets_node_is_read_as_it_was_written(node: FleetNode) -> None:
    """Whatever a name or a URL holds."""
    assert FleetNode.parse(node.render()) == node


@given(st.builds(InstanceNode, _texts, _texts, endpoints, epochs, _counts, _counts))
def test_an_instances_node_is_read_as_it_was_written(node: InstanceNode) -> None:
    """IPv6 too."""
    assert InstanceNode.parse(node.render()) == node
    assert parse_payload(node.render()) == (node.endpoint.host, node.endpoint.http_port)


@given(endpoints, instance_ids, st.sampled_from(("hostport", "json")))
def test_host_and_port_are_found_in_either_payload(
    endpoint: Endpoint, name: str, kind: str
) -> None:
    """A consumer need not know how a cluster is configured."""
    member = Member(name, "c1", endpoint, "aa")
    data = instance_payload(member, cluster="fleet", epoch=Epoch(1, 1), revision=3, kind=kind)
    assert parse_payload(data) == (endpoint.host, endpoint.http_port)


def test_the_default_payload_is_the_java_tarns() -> None:
    """``host:port``, byte for byte."""
    member = Member("fleet-0001", "c1", Endpoint("node-1.example", 8000, 8001, 8002), "aa")
    told = {"cluster": "fleet", "epoch": Epoch(1, 1), "revision": 3}
    assert instance_payload(member, **told) == b"node-1.example:8000"


def test_json_says_everything() -> None:
    """The keys that consumers are promised."""
    member = Member("fleet-0001", "c1", Endpoint("node-1", 8000, 8001, 8002), "aa", 50)
    data = instance_payload(member, cluster="fleet", epoch=Epoch(7, 2), revision=3, kind="json")
    assert json.loads(data) == {
        "url": "http://node-1:8000",
        "grpc": "node-1:8001",
        "metrics": "http://node-1:8002/metrics",
        "epoch": "7-2",
        "revision": 3,
        "cluster": "fleet",
        "instance": "fleet-0001",
        "weight": 50,
    }


@given(_garbage)
def test_garbage_is_refused_in_our_words(data: bytes) -> None:
    """Nobody who reads a stranger's node falls over anything but a `ConfigError`."""
    for read in (FleetNode.parse, InstanceNode.parse, parse_payload):
        try:
            read(data)
        except ConfigError as error:
            assert str(error)  # noqa: PT017


def test_nested_without_end_is_garbage() -> None:
    """A parser may run out of stack."""
    with pytest.raises(ConfigError):
        FleetNode.parse(b"[" * 100_000)


@pytest.mark.parametrize(
    ("path", "fleet"),
    [
        ("/services/triton/instances", "/services/triton/fleets/demo"),
        ("/instances", "/fleets/demo"),
    ],
)
def test_a_fleets_node_is_no_child_of_the_path(path: str, fleet: str) -> None:
    """Old consumers take every child for an instance."""
    assert check_path(path) == path
    assert fleet_path(path, "demo") == fleet


@pytest.mark.parametrize(
    "path",
    ["", "/", "triton", "/a/", "/a//b", "/a/../b", "/a/.", "/zookeeper/x", "/a\x00b", "/a/fleets"],
)
def test_a_path_that_cannot_be_meant_is_refused(path: str) -> None:
    """At the start, not when the first instance is ready."""
    with pytest.raises(ConfigError):
        check_path(path)


@given(st.text() | st.text("az1:,/[]. @"))
def test_an_ensemble_is_taken_as_kazoo_can_read_it_or_refused(text: str) -> None:
    """Nothing else comes out than our error."""
    try:
        check_ensemble(text)
    except ConfigError:
        return
    hosts = collect_hosts(text.partition("/")[0])[0]
    assert hosts
    assert all(host and 0 <= port < 65_536 for host, port in hosts)


@given(st.text())
def test_a_name_that_is_taken_is_one_node(name: str) -> None:
    """A container id never leads elsewhere."""
    if valid_name(name):
        assert "/" not in name
        assert check_path(f"/services/{name}x") == f"/services/{name}x"
