"""Which parts of Triton want a key, which key that is, and what the master says to it."""

import re

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tarn.domain import ClusterSpec, Endpoint, Launch, Secret
from tarn.domain.spec import RESTRICTABLE, InstanceSpec, ModelsSpec, TritonSpec
from tarn.testing.context import cluster_spec
from tarn.triton.command import argv
from tarn.triton.exits import hopeless, last_error
from tarn.triton.restricted import HEADER, NO_KEYS, findings, key, keys, without_keys

SECRET = Secret("of the cluster")
ENDPOINT = Endpoint("10.0.0.7", 8000, 8001, 8002)
PARTS = ("logging", "model-repository", "shared-memory", "trace")


def launch(secret: Secret | None = SECRET, **triton: object) -> Launch:
    spec = TritonSpec(**triton)
    return Launch(ModelsSpec("/m"), spec, InstanceSpec(), "/m", "h", keys=secret)


def groups(one: Launch, option: str, instance_id: str = "w-0001") -> list[str]:
    """Return the values of *option* in the command line."""
    line = argv(one, ENDPOINT, "tritonserver", bind="127.0.0.1", server_id=instance_id)
    return [w.partition("=")[2] for w in line if w.startswith(f"--{option}=")]


def of(**triton: object) -> ClusterSpec:
    return attrs.evolve(cluster_spec(), triton=TritonSpec(**triton))


def checked(**triton: object) -> list[tuple[str, bool, str]]:
    told = findings(of(**triton), bind="127.0.0.1")
    return [(f.code, f.fatal, f.found) for f in told]


@pytest.mark.parametrize("option", ["http-restricted-api", "grpc-restricted-protocol"])
def test_what_changes_the_server_wants_a_key_over_both_protocols(option: str) -> None:
    """By default; the key is that of this instance."""
    expected = f"{','.join(PARTS)}:{HEADER}={key(SECRET, 'w-0001')}"
    assert groups(launch(), option) == [expected]


def test_a_new_master_knows_the_key_and_another_instance_does_not() -> None:
    """It is derived, from the secret of the cluster and the id."""
    assert key(SECRET, "w-0001") == key(Secret("of the cluster"), "w-0001")
    several = {key(SECRET, "w-0001"), key(SECRET, "w-0002"), key(Secret("other"), "w-0001")}
    assert len(several) == 3
    assert all(re.fullmatch(r"[0-9a-f]{64}", one) for one in several)


def test_a_group_of_the_users_stands_beside_ours() -> None:
    """Triton ends where a part stands in two groups, so ours leaves theirs out; gRPC's is whole."""
    one = launch(args={"http-restricted-api": "model-repository,health:mine=a=b:c"})
    ours, theirs = groups(one, "http-restricted-api")
    assert ours.startswith("logging,shared-memory,trace:tarn-key=")
    assert theirs == "model-repository,health:mine=a=b:c"
    assert len(groups(one, "grpc-restricted-protocol")) == 1
    held = keys(one, "w-0001")
    assert held.of("model-repository") == (("mine", "a=b:c"),)
    assert held.of("health") == (("mine", "a=b:c"),)
    assert held.of("logging") == ((HEADER, key(SECRET, "w-0001")),)
    assert held.of("inference") == ()


def test_an_option_taken_away_is_open() -> None:
    """A user who writes null means it; the other protocol keeps its key."""
    one = launch(args={"http_restricted_api": None})
    assert groups(one, "http-restricted-api") == []
    assert len(groups(one, "grpc-restricted-protocol")) == 1
    assert keys(one, "w-0001") == NO_KEYS


def test_an_option_written_in_two_ways_is_one() -> None:
    """Triton's spelling and Python's."""
    args = {"http-restricted-api": "trace:a=b", "http_restricted_api": ["logging:c=d"]}
    one = launch(args=args)
    first, *theirs = groups(one, "http-restricted-api")
    assert first.startswith("model-repository,shared-memory:tarn-key=")
    assert theirs == ["trace:a=b", "logging:c=d"]
    assert keys(one, "w-0001").of("logging") == (("c", "d"),)


def test_nothing_restricted_is_no_option() -> None:
    """An empty list would end Triton."""
    for one in (launch(restricted=()), launch(secret=None)):
        assert groups(one, "http-restricted-api") == []
        assert keys(one, "w-0001") == NO_KEYS


@given(
    st.lists(st.sampled_from(RESTRICTABLE), unique=True),
    st.lists(st.sampled_from(RESTRICTABLE), unique=True, min_size=1),
)
def test_no_part_stands_in_two_groups_and_each_has_what_opens_it(
    restricted: list[str], theirs: list[str]
) -> None:
    """Whatever is restricted by us, and by the user."""
    args = {"http-restricted-api": [f"{','.join(theirs)}:their-key=v"]}
    one = launch(restricted=tuple(restricted), args=args)
    named = [p for g in groups(one, "http-restricted-api") for p in g.partition(":")[0].split(",")]
    assert sorted(named) == sorted({*restricted, *theirs})
    assert all(len(keys(one, "w-0001").of(part)) == 1 for part in named)


def test_no_repr_gives_a_key_away() -> None:
    """Launches and keys stand in errors and logs."""
    one = launch(args={"http-restricted-api": "trace:mine=hunter2"})
    text = f"{keys(one, 'w-0001')!r} {one.keys!r}"
    assert key(SECRET, "w-0001") not in text
    assert "hunter2" not in text
    assert "of the cluster" not in text


@pytest.mark.parametrize(
    ("value", "found"),
    [
        ("trace", "has no key"),
        ("trace:mine", "has no key"),
        ("trace:mine=", "has an empty key, or one that a header cannot carry"),
        ("trace:mine=a\nb", "has an empty key, or one that a header cannot carry"),
        ("traces:mine=a", "names parts that Triton's API does not have: 'traces'"),
        (["trace:a=b", "logging,trace:c=d"], "names trace twice"),
    ],
)
def test_a_group_that_would_end_triton_is_refused(value: object, found: str) -> None:
    """Before anything starts, and without the value."""
    assert ("TARN-3782", True, found) in checked(args={"http-restricted-api": value})


def test_what_stays_open_on_the_network_is_said() -> None:
    """Locally nobody else reaches it, unless somebody asked for that."""
    spec = of(restricted=("logging",))
    assert list(findings(spec, bind="127.0.0.1")) == []
    told = list(findings(spec, bind="0.0.0.0"))
    assert {(f.code, f.fatal) for f in told} == {("TARN-3781", False)}
    assert "model-repository, shared-memory, trace" in told[0].found
    assert list(findings(of(), bind="")) == []


def test_an_older_triton_is_named_as_what_it_is_without_the_key() -> None:
    """It repeats the whole option, which would bring the key into events and answers."""
    secret = key(SECRET, "w-0001")
    option = "--http-restricted-api=trace:tarn-key="
    said = f"/opt/bin/tritonserver: unrecognized option '{option}{secret}'"
    told = last_error([said, "Usage: tritonserver [options]"])
    assert told.startswith(f"tritonserver: unrecognized option '{option}***'")
    assert "set triton.restricted: []" in told
    assert secret not in told
    assert hopeless(told)
    assert without_keys("plain") == "plain"
