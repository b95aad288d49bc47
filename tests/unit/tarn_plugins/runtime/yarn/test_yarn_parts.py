"""The small pure parts: records, recovery, exits, ports, words."""

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tarn.domain import Endpoint
from tarn.domain.spec import PlacementSpec, TritonSpec
from tarn.errors import LaunchError
from tarn.testing.context import cluster_spec, launch_of
from tarn_plugins.runtime.yarn.master.asks import (
    Outlook,
    endpoint_on,
    number_of,
    shape_of,
    too_large,
    waits_for,
)
from tarn_plugins.runtime.yarn.master.exits import explain, not_started
from tarn_plugins.runtime.yarn.master.recovery import (
    RecoveredRecords,
    file_name,
    read_names,
    record_of,
    recover,
)
from tarn_plugins.runtime.yarn.master.slots import BadNodes
from tarn_plugins.runtime.yarn.messages import AllocatedContainer, Completed, ContainerRecord, Shape

PORTS = st.integers(0, 65_535)
RECORDS = st.builds(
    ContainerRecord,
    st.text(),
    st.integers(0, 2**40),
    st.text(),
    st.text(),
    st.text(),
    st.builds(Endpoint, st.text(), PORTS, PORTS, PORTS),
    st.floats(allow_nan=False, allow_infinity=False),
)
ONE = ContainerRecord(
    "fleet-0001",
    1,
    "container_e17_1764300000000_0003_01_000004",
    "aaaaaaaaaaaa",
    "nm1.tarn.lab",
    Endpoint("nm1.tarn.lab", 8000, 8001, 8002),
    1_764_300_000.25,
)


def grant_of(record, container_id=None):
    return AllocatedContainer(
        container_id or record.container_id, record.number, record.node, 1, "x:1"
    )


@given(record=RECORDS)
def test_a_record_comes_back_from_its_name(record):
    """Whatever its texts are; the name holds nothing that a URI, a glob or a shell changes."""
    name = file_name(record)
    assert record_of(name) == record
    assert set(name) <= set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-=@")


@given(name=st.text() | st.text("1@=.-_ab0f", max_size=60))
def test_junk_is_no_record(name):
    """And never an exception; what is read is what would be written."""
    record = record_of(name)
    assert record is None or file_name(record) == name


def test_a_real_record_is_short_and_readable():
    """HDFS takes names of 255 bytes."""
    assert file_name(ONE) == (
        "1@fleet-0001@1@container_e17_1764300000000_0003_01_000004@aaaaaaaaaaaa@nm1.tarn.lab@="
        "@8000@8001@8002@1764300000.25"
    )


def test_junk_names_are_told_and_left_alone():
    """Somebody put a file there."""
    records, notes = read_names(["notes.txt", file_name(ONE)])
    assert records == (ONE,)
    assert notes == ("the launch file 'notes.txt' is not TARN's, so it was left alone",)


def test_containers_are_matched_by_id_and_the_rest_is_stale():
    """A record without a container may still find one later."""
    gone = attrs.evolve(ONE, instance_id="fleet-0002", number=2, container_id="container_x_2")
    memory, _ = RecoveredRecords.read([file_name(ONE), file_name(gone)])
    found = recover([grant_of(ONE)], memory)
    assert found.running == ((grant_of(ONE), ONE),)
    assert found.stale == (gone,)
    assert found.notes == ()


def test_without_records_the_number_and_the_exact_ports_are_enough():
    """One instance a node listens where the spec says."""
    memory = RecoveredRecords.lost(cluster_spec(), "hhhh", {})
    ((_, record),) = recover([grant_of(ONE)], memory).running
    assert record == attrs.evolve(ONE, spec_hash="hhhh", started_at=0.0)


def test_what_nobody_can_address_goes_back_with_a_note():
    """Several on a node, and no word on their ports."""
    spec = cluster_spec()
    spec = attrs.evolve(spec, placement=attrs.evolve(spec.placement, spread="none"))
    found = recover([grant_of(ONE)], RecoveredRecords.lost(spec, "", {}))
    assert found.running == ()
    assert found.lost == (grant_of(ONE),)
    assert ONE.container_id in found.notes[0]


def test_what_says_where_it_listens_is_kept_however_many_are_on_a_node():
    """Its word is as good as a record."""
    spec = cluster_spec()
    spec = attrs.evolve(spec, placement=attrs.evolve(spec.placement, spread="none"))
    said = Endpoint(ONE.node, 8006, 8007, 8008)
    ((_, record),) = recover(
        [grant_of(ONE)], RecoveredRecords.lost(spec, "", {ONE.container_id: said})
    ).running
    assert (record.instance_id, record.endpoint) == (ONE.instance_id, said)


def test_of_two_containers_of_one_instance_one_stays():
    """The later one."""
    later = attrs.evolve(ONE, container_id=ONE.container_id.replace("_000004", "_000009"))
    memory, _ = RecoveredRecords.read([file_name(ONE), file_name(later)])
    found = recover([grant_of(later), grant_of(ONE)], memory)
    assert [record for _, record in found.running] == [later]
    assert found.lost == (grant_of(ONE),)


SHARED = "; the shared memory of Python models is a part of it"
ASKED = "(instance.resources.memory asked for 8192 MiB). Raise instance.resources.memory"
KILLED = f"killed by signal 9 (SIGKILL), not by TARN: probably out of memory {ASKED}{SHARED}"
TOO_MUCH = f"out of memory: it used 9.1 GB of 8 GB physical memory {ASKED}{SHARED}"
TOO_MUCH_VIRTUAL = (
    f"out of memory: it used 18 GB of 16.8 GB virtual memory {ASKED}, "
    f"or yarn.nodemanager.vmem-pmem-ratio{SHARED}"
)
USED = "Current usage: 9.1 GB of 8 GB physical memory used; 18 GB of 16.8 GB virtual memory used."
BEYOND = f"Container [pid=7,containerID=c] is running {{}} limit{{}}. {USED} Killing container."
PHYSICAL = BEYOND.format("beyond physical memory", "s")  # before Hadoop 3.2
PHYSICAL_NOW = BEYOND.format("1181116006B beyond the 'PHYSICAL' memory", "")
VIRTUAL = BEYOND.format("1288490188B beyond the 'VIRTUAL' memory", "")


@pytest.mark.parametrize(
    ("code", "said", "words", "node_fault"),
    [
        (0, "", "exited with code 0", False),
        (143, "", "killed by signal 15 (SIGTERM)", False),
        (
            137,
            "",
            KILLED,
            False,
        ),
        (-100, "Container released on a *lost* node", "its node was lost", True),
        (-101, "", "the node's disks failed", True),
        (
            -104,
            USED,
            TOO_MUCH,
            False,
        ),
        (143, PHYSICAL, TOO_MUCH, False),
        (137, PHYSICAL_NOW, TOO_MUCH, False),
        (143, VIRTUAL, TOO_MUCH_VIRTUAL, False),
        (-103, VIRTUAL, TOO_MUCH_VIRTUAL, False),
        (139, "", "killed by signal 11 (SIGSEGV)", False),
        (134, "", "killed by signal 6 (SIGABRT)", False),
        (-999, "\n odd \n", "ended by YARN with code -999: odd", False),
    ],
)
def test_yarns_codes_in_words(code, said, words, node_fault):
    """Each with its next step, where there is one."""
    status = explain(Completed("c", code, said), asked=False, memory_mib=8192)
    assert status.reason == words
    assert (status.code, status.node_fault, status.expected) == (code, node_fault, False)


@pytest.mark.parametrize(
    ("code", "said", "words"),
    [
        (127, "", "the node has no such program (exit code 127)"),
        (127, "run: 88: exec: /opt/t: not found\n", "no such program: /opt/t (exit code 127)"),
        (126, "run: line 88: /opt/t: Permission denied\n", "cannot run its program: /opt/t (exit"),
    ],
)
def test_a_program_that_is_not_there_is_named(code, said, words):
    """By the shell in front of it; with the keys that name it."""
    reason = explain(Completed("c", code, said), asked=False).reason
    assert words in reason
    assert "triton.binary" in reason


@pytest.mark.parametrize("code", range(-109, -99))
def test_every_code_of_yarn_has_words(code):
    """No number is left to be looked up."""
    assert "code" not in explain(Completed("c", code), asked=False).reason


@pytest.mark.parametrize(
    ("said", "words", "node_fault"),
    [
        ("SecretManager$InvalidToken: token is expired", "delegation tokens have ended", False),
        ("Resource x changed on src filesystem (expected 1, was 2)", "a file changed", False),
        ("AccessControlException: Permission denied: user=x", "may not read", False),
        ("java.io.IOException: No space left on device", "no space left", True),
        ("File does not exist: hdfs://x", "no longer exists", False),
        ("something else", "something else", False),
    ],
)
def test_files_that_did_not_come_are_told_in_words(said, words, node_fault):
    """With what to do."""
    status = explain(Completed("c", -1000, said), asked=False)
    assert words in status.reason
    assert status.node_fault is node_fault


def test_a_taken_port_is_the_nodes_fault():
    """Another node may have it free."""
    said = "E1127 23:52:37.2 2510 main.cc:345] \"Socket '0.0.0.0:8000' already in use \""
    assert explain(Completed("c", 1, said), asked=False).node_fault


def test_an_exception_that_nobody_expected_is_told_by_its_name():
    """And tried again."""
    status = not_started(ValueError("odd"), at_node=True)
    assert "ValueError: odd" in status.reason
    assert not status.permanent
    assert not_started(LaunchError("yarn", "no"), at_node=True).permanent


@given(
    held=st.lists(st.integers(0, 30), max_size=10, unique=True),
    number=st.integers(1, 10_000),
    ports=st.tuples(*[st.none() | st.sampled_from((0, 8000, 8001, 9000, 65_500))] * 3),
)
def test_ports_are_never_shared_on_a_node(held, number, ports):
    """Three different ones, all legal, none of them held."""
    triton = TritonSpec(http_port=ports[0], grpc_port=ports[1], metrics_port=ports[2])
    given_ports = [d if p is None else p for p, d in zip(ports, (8000, 8001, 8002), strict=True)]
    if len({p for p in given_ports if p}) < len([p for p in given_ports if p]):
        return
    others = [Endpoint("n", 8000 + 3 * i, 8001 + 3 * i, 8002 + 3 * i) for i in held]
    endpoint = endpoint_on("n", number, triton, others)
    mine = {endpoint.http_port, endpoint.grpc_port, endpoint.metrics_port}
    assert len(mine) == 3
    assert all(0 < port <= 65_535 for port in mine)
    assert not mine & {p for e in others for p in (e.http_port, e.grpc_port, e.metrics_port)}


def test_the_number_of_an_id():
    """Names may hold digits and dashes."""
    assert number_of("my-2-fleet-0042") == 42
    assert number_of("fleet-12345") == 12345
    assert number_of("fleet") == 0


def test_the_shape_follows_resources_and_placement():
    """Spread none asks for no anti-affinity."""
    launch = launch_of(cluster_spec())
    assert shape_of(launch, PlacementSpec()) == Shape(4096, 2, (), "", "nvidia", "all")
    crowd = PlacementSpec(spread="none", node_label="GPU", tag="t")
    assert shape_of(launch, crowd) == Shape(4096, 2, (), "GPU", "t", "none")


def test_a_maximum_that_was_not_told_forbids_nothing():
    """And one that was told forbids memory, cores and accelerators alike."""
    shape = Shape(4096, 2, (("yarn.io/gpu", 1),))
    most = {"memory-mb": 4096, "vcores": 2, "yarn.io/gpu": 1}
    assert too_large(shape, {}) == too_large(shape, most) == ""
    assert "4096 MiB of memory" in too_large(shape, most | {"memory-mb": 1024})
    assert "2 vcores" in too_large(shape, most | {"vcores": 1})


def test_words_for_waiting():
    """Queue, label, nodes: only what is known."""
    shape = Shape(4096, 2, (), "GPU", "nvidia", "all")
    some = Outlook(3, heard=True, holding=1, free_mib=10_000)
    assert waits_for(shape, Outlook(), 99.0, "") == ""
    here = attrs.evolve(shape, node_label="")
    assert waits_for(here, attrs.evolve(some, free_mib=700), 9.0, "") == (
        "YARN reports 512 MiB left in the queue for this cluster, and an instance needs 4096 "
        "MiB (1 of 3 nodes holds an instance)"
    )
    assert waits_for(shape, some, 9.0, "") == (
        "no node labelled 'GPU' without tag 'nvidia' has 4096 MiB and 2 vcores free "
        "(1 of 3 nodes holds an instance)"
    )
    crowd = attrs.evolve(shape, scope="none", node_label="")
    assert waits_for(crowd, attrs.evolve(some, avoided=1), 9.0, "") == (
        "no node has 4096 MiB and 2 vcores free (3 nodes; 1 avoided after failures)"
    )
    assert "no NodeManager" in waits_for(shape, attrs.evolve(some, nodes=0), 9.0, "")


def test_a_queue_is_to_blame_only_where_a_node_is_permitted():
    """CapacityScheduler tells next to no headroom once a node was lost, though 5 GiB are free."""
    shape = Shape(768, 1, (), "", "nvidia", "all")
    lost = Outlook(1, heard=True, holding=1, free_mib=128)
    assert waits_for(shape, lost, 9.0, "") == (
        "no node without tag 'nvidia' is free (1 of 1 node holds an instance)"
    )
    more = attrs.evolve(lost, nodes=2)
    assert waits_for(shape, more, 9.0, "") == (
        "YARN reports less than 256 MiB left in the queue for this cluster, and an instance "
        "needs 768 MiB (1 of 2 nodes holds an instance)"
    )


def test_headroom_is_not_told_of_a_labelled_partition():
    """YARN tells that of the partition in which the master runs."""
    shape = Shape(768, 1, (), "gpu", "nvidia", "none")
    told = Outlook(2, heard=True, free_mib=0)
    assert waits_for(shape, told, 9.0, "") == (
        "no node labelled 'gpu' has 768 MiB and 1 vcore free (2 nodes)"
    )


@given(
    events=st.lists(st.tuples(st.sampled_from("abcdef"), st.booleans()), max_size=60),
    nodes=st.integers(0, 6),
)
def test_never_more_than_half_of_the_nodes_are_bad(events, nodes):
    """And one success is enough to be good again."""
    bad = BadNodes(2)
    for at, (node, good) in enumerate(events):
        if good:
            bad.succeeded(node)
            assert node not in bad.avoided(100)
        else:
            bad.failed(node, float(at))
        assert len(bad.avoided(nodes)) <= nodes // 2
