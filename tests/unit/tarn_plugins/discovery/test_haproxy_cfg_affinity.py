"""What `tarn doctor --haproxy-cfg` says of the lines that keep sequences together."""

from pathlib import Path

import pytest

from tarn_plugins.discovery.haproxy import _faults
from tarn_plugins.discovery.haproxy.authz import Authz
from tarn_plugins.discovery.haproxy.cfg_file import examine
from tarn_plugins.discovery.haproxy.configuration import HaproxyCfgSettings, render
from tarn_plugins.discovery.haproxy.keyed_routing import KeyedRouting, begin_line
from tarn_plugins.discovery.haproxy.settings import HaproxyTarget

KEYED = KeyedRouting(door_lua="/etc/haproxy/tarn_door.lua")
PLAIN = render(HaproxyCfgSettings(keyed=KEYED))
AUTHZ = Authz(
    lua="/etc/haproxy/tarn_authorize.lua", client_ca="/etc/ca.pem", grpc_all_models=True, api=True
)


def codes(text: str) -> list[str]:
    return [one.code for one in examine("haproxy.cfg", text.encode())]


@pytest.mark.parametrize(
    "settings",
    [
        HaproxyCfgSettings(keyed=KEYED),
        HaproxyCfgSettings(keyed=KEYED, slots=3, grpc_port=0),
        HaproxyCfgSettings(keyed=KEYED, certificate="/etc/lb.pem", authz=AUTHZ),
        HaproxyCfgSettings(),
    ],
)
def test_a_rendered_file_has_no_finding(settings: HaproxyCfgSettings) -> None:
    assert codes(render(settings)) == []


@pytest.mark.parametrize(
    ("old", "new", "found"),
    [
        (begin_line("grpc"), "", "does not look for the key"),
        ("http-request lua.tarn_key http if reads", "", "does not look for the key"),
        ("if { var(txn.tarn_refusal) -m found }", "if { path /x }", "cannot read"),
        ("  use_backend triton_backend_keyed if has_key\n", "", "no backend of theirs"),
        ("balance hash var(txn.tarn_key)", "balance leastconn", "consistent hash"),
        ("hash-type consistent", "hash-type map-based", "consistent hash"),
        ("  stick on", "  # stick on", "does not remember"),
    ],
)
def test_a_line_that_is_missing_is_named(old: str, new: str, found: str) -> None:
    assert old in PLAIN
    findings = list(examine("haproxy.cfg", PLAIN.replace(old, new, 1).encode()))
    assert {one.code for one in findings} == {"TARN-3616"}
    assert found in findings[0].found


def test_headers_are_read_before_they_are_removed() -> None:
    begin = f"{begin_line('http')}\n"
    late = PLAIN.replace(begin, "", 1)
    late = late.replace("  acl reads", f"{begin}  acl reads", 1)
    assert codes(late) == ["TARN-3616"]


def test_lua_is_loaded_in_one_way() -> None:
    ours = "  lua-load-per-thread "
    assert ours in PLAIN
    assert codes(PLAIN.replace(ours, f"  lua-load /etc/mine.lua\n{ours}", 1)) == ["TARN-3617"]
    assert codes(PLAIN.replace(ours, "  lua-load ")) == []


@pytest.mark.parametrize(
    ("version", "added", "count"),
    [
        ((2, 6, 12), True, 0),
        ((3, 0, 11), True, 0),
        ((3, 2, 5), True, 0),
        ((3, 2, 6), True, 1),
        ((3, 2, 25), True, 1),
        ((3, 2, 10), False, 0),
        ((3, 2, 26), True, 0),
    ],
)
def test_a_version_that_aborts_is_named(version: tuple[int, ...], added: bool, count: int) -> None:
    target = HaproxyTarget(Path("/s"))
    found = list(_faults(target, version, added=added))
    assert [one.code for one in found] == ["TARN-3615"] * count
