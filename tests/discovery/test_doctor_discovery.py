"""`tarn doctor` at a real ZooKeeper and a real HAProxy: what it sees, and that it changes nothing.

What it finds wrong is what a master meets there.
"""

import contextlib
import re
from collections.abc import Iterator
from pathlib import Path

import attrs
import pytest
from kazoo.client import KazooClient
from kazoo.exceptions import NoAuthError
from kazoo.security import make_acl, make_digest_acl
from servers.haproxy import ThreeBackendHaproxy
from servers.zookeeper import Ensemble, client
from zookeeper_masters import Masters, fresh_path, masters, view

from tarn.clock import SystemClock
from tarn.doctor import CheckState, OfferedCheck, Result, examine
from tarn.domain.spec import DiscoverySpec
from tarn.errors import DiscoveryError
from tarn.testing.context import client_context, cluster_spec
from tarn_plugins.discovery import haproxy as haproxy_plugin
from tarn_plugins.discovery import zookeeper as zookeeper_plugin

pytestmark = pytest.mark.discovery

SERVERS, PATH = "ZooKeeper servers", "ZooKeeper path"
NOBODY = "127.0.0.1:9"


def look(directory: Path, use: str, environ: dict[str, str] | None = None, **options: object):
    """Return what the checks of one discovery come to, by name."""
    spec = attrs.evolve(
        cluster_spec(),
        discovery=(DiscoverySpec(use, options),),
        replicas=attrs.evolve(cluster_spec().replicas, max=4),
    )
    context = client_context(directory)
    context = attrs.evolve(context, environ={**context.environ, **(environ or {})})
    checks = (
        zookeeper_plugin.tarn_doctor_checks(spec, context)
        if use == "zookeeper"
        else haproxy_plugin.tarn_doctor_checks(spec)
    )
    results = examine([OfferedCheck("p", check) for check in checks], SystemClock())
    return {result.check: result for result in results}


def codes(result: Result) -> list[str]:
    return [one.code for one in result.findings]


@pytest.fixture
def other(zookeeper: Ensemble) -> Iterator[KazooClient]:
    with client(zookeeper.address) as one:
        yield one


@pytest.fixture
def house(zookeeper: Ensemble, tmp_path: Path, other: KazooClient) -> Iterator[Masters]:
    other.ensure_path("/services")  # else the first with a digest owns it
    with masters(tmp_path, zookeeper.address) as some:
        yield some


def tree(other: KazooClient, at: str = "/") -> set[str]:
    """Return every node that may be listed, but those of ZooKeeper's own."""
    found = {at}
    with contextlib.suppress(NoAuthError):
        for child in other.get_children(at):
            if child != "zookeeper":
                found |= tree(other, f"{at.rstrip('/')}/{child}")
    return found


def test_an_ensemble_that_is_well_is_left_as_it_was(tmp_path, zookeeper, other, house):
    """All that the master will make is tried, and nothing of it stays; not even the path."""
    before = tree(other)
    found = look(tmp_path, "zookeeper", ensemble=zookeeper.address, path=house.path)
    assert [one.state for one in found.values()] == [CheckState.OK, CheckState.OK]
    assert found[PATH].seen == f"{house.path}: this user may publish; it is made at the first start"
    assert tree(other) == before
    house.make().reach(10)
    assert look(tmp_path, "zookeeper", ensemble=zookeeper.address, path=house.path)[
        PATH
    ].seen.endswith("may publish")


def test_a_chroot_that_is_missing_is_made_by_the_master_too(tmp_path, zookeeper, other):
    """It is a path like another."""
    before = tree(other)
    ensemble = f"{zookeeper.address}{fresh_path()}/a/b"
    found = look(tmp_path, "zookeeper", ensemble=ensemble)
    assert [one.state for one in found.values()] == [CheckState.OK, CheckState.OK]
    assert tree(other) == before


def test_a_server_that_is_silent_is_named(tmp_path, zookeeper, house):
    """The others carry on: a warning."""
    both = f"{zookeeper.address},{NOBODY}"
    found = look(tmp_path, "zookeeper", ensemble=both, path=house.path)
    assert found[SERVERS].state is CheckState.WARNING
    (one,) = found[SERVERS].findings
    assert (one.code, one.where) == ("TARN-3606", f"ZooKeeper {NOBODY}")
    assert "one of 2 servers" in one.found
    assert found[PATH].state is CheckState.OK


def test_no_server_at_all_is_an_error(tmp_path):
    """Said by both, as each of them needs one."""
    found = look(tmp_path, "zookeeper", ensemble=NOBODY)
    assert [codes(one) for one in found.values()] == [["TARN-3301"], ["TARN-3301"]]


def test_an_acl_that_forbids_is_an_error_before_the_start(tmp_path, zookeeper, other, house):
    """The node above belongs to somebody else; so it does for the master."""
    at = f"{house.path.rpartition('/')[0]}"
    other.ensure_path("/services")
    other.create(at, acl=[make_digest_acl("owner", "secret", all=True)])
    found = look(tmp_path, "zookeeper", ensemble=zookeeper.address, path=house.path)
    assert codes(found[PATH]) == ["TARN-3302"]
    with pytest.raises(DiscoveryError) as caught:
        house.make().reach(10)
    assert caught.value.code == "TARN-3302"
    found = look(
        tmp_path,
        "zookeeper",
        {"ZK": "owner:secret"},
        ensemble=zookeeper.address,
        path=house.path,
        digest="env:ZK",
    )
    assert found[PATH].state is CheckState.OK, found


def test_a_path_that_may_only_be_read_is_an_error(tmp_path, zookeeper, other, house):
    """It exists, and nobody but its owner adds to it."""
    other.ensure_path(house.path)
    other.set_acls(house.path, [make_acl("world", "anyone", read=True)])
    found = look(tmp_path, "zookeeper", ensemble=zookeeper.address, path=house.path)
    assert codes(found[PATH]) == ["TARN-3302"]


def test_an_acl_that_the_servers_do_not_take_is_an_error(tmp_path, zookeeper, house):
    """``auth`` means who is logged in; nobody is."""
    found = look(
        tmp_path, "zookeeper", ensemble=zookeeper.address, path=house.path, acl=["auth::cdrwa"]
    )
    (one,) = found[PATH].findings
    assert one.code == "TARN-3302"
    assert "`digest`" in one.next_step


def test_a_name_that_another_owner_has_is_an_error(tmp_path, zookeeper, house):
    """It is refused at the start."""
    house.make(environ={"USER": "alice"}).sync(view(1, 1, 2))
    mine = look(
        tmp_path, "zookeeper", {"USER": "alice"}, ensemble=zookeeper.address, path=house.path
    )
    theirs = look(
        tmp_path, "zookeeper", {"USER": "bob"}, ensemble=zookeeper.address, path=house.path
    )
    assert mine[PATH].state is CheckState.OK
    assert codes(theirs[PATH]) == ["TARN-3304"]


def test_a_digest_that_is_not_here_makes_it_unknown(tmp_path, zookeeper):
    """It lies on the master's machine, which may be another."""
    found = look(tmp_path, "zookeeper", ensemble=zookeeper.address, digest="file:/no/where/digest")[
        PATH
    ]
    assert found.state is CheckState.UNKNOWN
    assert "/no/where/digest" in found.seen


def haproxy_look(directory: Path, **options: object) -> Result:
    (result,) = look(directory, "haproxy", **options).values()
    return result


def test_a_haproxy_that_is_well_is_left_as_it_was(tmp_path, haproxy: ThreeBackendHaproxy):
    """Its version, its level, and how many instances it has room for."""
    before = haproxy.servers(), haproxy.servers("slots_backend")
    found = haproxy_look(tmp_path, socket=str(haproxy.socket))
    assert found.state is CheckState.OK
    assert re.match(r"HAProxy [23]\.", found.seen)
    assert "level admin" in found.seen
    slots = haproxy_look(
        tmp_path, socket=str(haproxy.socket), backend="slots_backend", slots="triton-"
    )
    assert "4 placeholder servers" in slots.seen
    assert (haproxy.servers(), haproxy.servers("slots_backend")) == before


@pytest.mark.parametrize(
    ("options", "code", "said"),
    [
        ({"socket": "operator"}, "TARN-3307", "level admin"),
        ({"backend": "tritons"}, "TARN-3305", "tritons"),
        ({"grpc_backend": "grpcs"}, "TARN-3305", "grpcs"),
        ({"backend": "slots_backend", "slots": "server-"}, "TARN-3308", "server-"),
        ({"socket": "nowhere"}, "TARN-3306", "no such socket"),
    ],
)
def test_what_keeps_a_haproxy_from_being_driven_is_named(
    tmp_path, haproxy: ThreeBackendHaproxy, options, code, said
):
    """Each as the master would meet it, with what to write where."""
    places = {"operator": haproxy.operator_socket, "nowhere": haproxy.socket.parent / "no.sock"}
    socket = places.get(options.get("socket", ""), haproxy.socket)
    found = haproxy_look(tmp_path, **{**options, "socket": str(socket)})
    assert found.state is CheckState.ERROR
    (one,) = found.findings
    assert one.code == code
    assert said in f"{one.found} {one.next_step}"
    assert one.next_step


def test_a_haproxy_that_was_killed_is_an_error(tmp_path, haproxy: ThreeBackendHaproxy):
    """Its socket's file is still there."""
    haproxy.stop()
    found = haproxy_look(tmp_path, socket=str(haproxy.socket))
    assert codes(found) == ["TARN-3306"]


def test_too_few_slots_for_the_spec_are_an_error(tmp_path, haproxy: ThreeBackendHaproxy):
    """The fleet may have more instances than HAProxy has placeholders."""
    options = {"socket": str(haproxy.socket), "backend": "slots_backend", "slots": "triton-1"}
    found = haproxy_look(tmp_path, **options)
    assert codes(found) == ["TARN-3308"]
    del options["slots"]
    assert haproxy_look(tmp_path, **options).state is CheckState.OK
