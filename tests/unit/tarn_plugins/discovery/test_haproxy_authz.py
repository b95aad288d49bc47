"""What a ``haproxy.cfg`` that asks the master says, and what is refused."""

import re
from pathlib import Path

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from tarn.errors import ConfigError
from tarn_plugins.discovery.haproxy.authz import LUA, Authz, lua_text
from tarn_plugins.discovery.haproxy.config_command import config
from tarn_plugins.discovery.haproxy.configuration import HaproxyCfgSettings, render

FILE = f"/etc/haproxy/{LUA}"
ODD = st.text(min_size=1) | st.text(alphabet="/.0123456789:% \n\"'\\$#{}", min_size=1)


def _doors(**more: object) -> HaproxyCfgSettings:
    plain = {"lua": FILE, "client_ca": "/etc/ca.pem", "grpc_all_models": True, **more}
    return HaproxyCfgSettings(certificate="/etc/lb.pem", authz=Authz(**plain))


@given(
    field=st.sampled_from(["lua", "client_ca", "master", "master_ca", "knox"]),
    value=ODD | st.builds("/etc/{}".format, ODD),
)
def test_what_is_no_single_word_never_reaches_the_file(field: str, value: str) -> None:
    """Neither a path, nor a place, nor an address."""
    try:
        Authz(**{"lua": FILE, field: (value,) if field == "knox" else value})
    except ConfigError:
        return
    assert re.fullmatch(r"[A-Za-z0-9_./@+=:-]+", value)


@pytest.mark.parametrize(
    "wrong",
    [
        {"lua": ""},
        {"lua": "tarn.lua"},
        {"knox": ("knox.example.com",)},
        {"knox": ("10.0.0.1/24",)},
        {"master": "master:1"},
        {"master": "10.0.0.1"},
        {"master": "10.0.0.1:0"},
        {"master": "10.0.0.1:65536"},
        {"grace_s": -1},
        {"grace_s": 3601},
        {"grace_s": True},
        {"ask_port": 0},
    ],
    ids=str,
)
def test_a_value_that_means_nothing_is_refused(wrong: dict[str, object]) -> None:
    """With what would be right."""
    with pytest.raises(ConfigError) as raised:
        Authz(**{"lua": FILE, **wrong})
    assert raised.value.right


def test_a_door_for_grpc_is_never_there_by_oversight() -> None:
    """It keeps no models apart, so it must be said that none need be kept apart."""
    with pytest.raises(ConfigError) as raised:
        HaproxyCfgSettings(authz=Authz(lua=FILE))
    assert raised.value.code == "TARN-3336"
    with pytest.raises(ConfigError, match="certificate"):
        HaproxyCfgSettings(authz=Authz(lua=FILE, grpc_all_models=True))
    with pytest.raises(ConfigError, match="certificate"):
        HaproxyCfgSettings(grpc_port=0, authz=Authz(lua=FILE, client_ca="/etc/ca.pem"))
    assert "verify required" in render(_doors())


@pytest.mark.parametrize("more", [{"ask_port": 8080}, {"certificate_port": 8081}])
def test_a_port_is_used_once(more: dict[str, int]) -> None:
    """Also by the doors that only these files have."""
    with pytest.raises(ConfigError, match="twice"):
        _doors(**more)


def test_every_door_has_the_rules_in_their_order() -> None:
    """Who, then nothing of what they claim, then whether; and no way around."""
    text = render(_doors(knox=("10.0.0.5", "10.1.0.0/16")))
    doors = re.findall(r"^frontend triton_(\w+)$", text, re.MULTILINE)
    assert doors == ["http", "certificate", "grpc"]
    for door in doors:
        section = text.split(f"frontend triton_{door}\n")[1].split("\nbackend ")[0]
        rules = re.findall(r"^  http-request (.*)$", section.split("\nfrontend ")[0], re.MULTILINE)
        kinds = [rule.split()[0] for rule in rules]
        start = kinds.index("lua.tarn_identify")
        wanted = ["lua.tarn_identify", "deny", "deny", "del-header", "del-header"]
        wanted += ["lua.tarn_authorize", "return", "deny"]
        assert kinds[start : start + len(wanted)] == wanted
        assert rules[start + len(wanted) - 1].endswith(" unless allowed")
        assert ("set-uri" in kinds) == (door != "grpc")
        assert ("from_knox" in section.split("\nfrontend ")[0]) == (door == "http")
    assert "src 10.0.0.5 10.1.0.0/16 }" in text


def test_no_secret_stands_in_the_files() -> None:
    """Their names do, and whoever starts HAProxy sets them."""
    text = render(_doors(knox=("10.0.0.5",))) + lua_text()
    assert "TARN_PROXY_TOKEN" in text
    assert not re.search(r"setenv TARN_(PROXY_TOKEN|KNOX_GATE)", text)


def test_the_lua_file_keeps_to_the_width_and_says_what_it_needs() -> None:
    """A person reads it on a terminal."""
    lines = lua_text().splitlines()
    assert max(map(len, lines)) <= 100
    used = set(re.findall(r"TARN_[A-Z_]+", lua_text()))
    assert used == {
        "TARN_AUTHZ_ANSWERS",
        "TARN_AUTHZ_API",
        "TARN_AUTHZ_ASK",
        "TARN_AUTHZ_GRACE",
        "TARN_AUTHZ_KNOX",
        "TARN_PROXY_TOKEN",
        "TARN_KNOX_GATE",
    }


def test_the_command_writes_the_files_that_belong_together(tmp_path: Path) -> None:
    """The one names the other; without being asked there is no door for gRPC."""
    place = tmp_path / "new"
    done = CliRunner().invoke(config, ["--authz", "--knox", "10.0.0.5", "-o", str(place)])
    assert (done.exit_code, done.exception) == (0, None)
    assert done.output.splitlines() == [
        str(place / name) for name in ("haproxy.cfg", "tarn_door.lua", LUA)
    ]
    text = (place / "haproxy.cfg").read_text()
    assert f"  lua-load {place / LUA}\n" in text
    assert "triton_grpc" not in text
    assert "#   tarn lb haproxy --socket /var/run/haproxy.sock --authz\n" in text
    assert (place / LUA).read_text() == lua_text()
    done = CliRunner().invoke(config, ["--authz", "--lua", FILE, "-o", str(place)])
    assert f"  lua-load {FILE}\n" in (place / "haproxy.cfg").read_text()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--authz"], "needs a directory"),
        (["--knox", "10.0.0.5"], "knox without --authz"),
        (["--grace", "5"], "grace_s without --authz"),
        (["--grpc-all-models"], "grpc_all_models without --authz"),
        (["--authz", "--grpc-port", "8081", "-o", "x"], "tell models apart"),
    ],
)
def test_what_would_guard_less_than_it_seems_is_refused(words: list[str], said: str) -> None:
    """Before a file is written."""
    done = CliRunner().invoke(config, words)
    assert isinstance(done.exception, ConfigError)
    assert said in str(done.exception)
