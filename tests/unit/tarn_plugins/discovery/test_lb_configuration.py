"""What a rendered haproxy.cfg says, and what is never rendered."""

import re
import string
from pathlib import Path

import attrs
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from tarn.errors import ConfigError
from tarn_plugins.discovery.haproxy.config_command import config
from tarn_plugins.discovery.haproxy.configuration import HaproxyCfgSettings, render
from tarn_plugins.discovery.haproxy.keyed_routing import KeyedRouting, door_text

TEXTS = ("cluster", "address", "socket", "backend", "grpc_backend", "slot_prefix", "certificate")
TEXTS += ("log", "user", "group")
ODD = st.text(alphabet=st.characters(codec="utf-8"), min_size=1) | st.text(
    alphabet=string.ascii_letters + "/-_. \n\t\r\0\"'\\$#%{}();*~&|<>=,:@", min_size=1
)


@given(field=st.sampled_from(TEXTS), value=ODD | st.builds("/etc/{}".format, ODD))
def test_what_is_no_single_word_never_reaches_the_file(field: str, value: str) -> None:
    """HAProxy's own quoting, comments and variables have nothing to work on."""
    try:
        HaproxyCfgSettings(**{field: value})
    except ConfigError:
        return
    assert re.fullmatch(r"[A-Za-z0-9_./@+=*-]+", value)


@pytest.mark.parametrize(
    "wrong",
    [
        {"http_port": 0},
        {"http_port": 65536},
        {"http_port": True},
        {"http_port": 8081},
        {"stats_port": 8080},
        {"slots": -1},
        {"longest_s": 0},
        {"backend": "same", "grpc_backend": "same"},
        {"backend": "triton_http"},
        {"grpc_backend": "haproxy_stats"},
        {"socket": "/" + "a" * 100},
        {"socket": "haproxy.sock"},
        {"address": "lb1"},
        {"log": "stdout format raw"},
    ],
    ids=str,
)
def test_a_value_that_haproxy_would_refuse_is_refused_at_once(wrong: dict[str, object]) -> None:
    """With what would be right, before there is a file."""
    with pytest.raises(ConfigError) as raised:
        HaproxyCfgSettings(**wrong)
    assert raised.value.right


def test_an_inference_is_sent_again_only_where_no_connection_came_about() -> None:
    """Anything else could run it twice."""
    lines = [line.strip() for line in render(HaproxyCfgSettings()).splitlines()]
    assert [line for line in lines if line.startswith("retry-on")] == ["retry-on conn-failure"]


def test_both_doors_drop_what_only_tarn_says_to_itself() -> None:
    """X-TARN-User from outside would be believed."""
    doors = re.findall(r"^frontend triton_(\w+)$", render(HaproxyCfgSettings()), re.MULTILINE)
    assert doors == ["http", "grpc"]
    assert render(HaproxyCfgSettings()).count("  http-request del-header X-TARN- -m beg\n") == 2


def test_the_file_names_the_agent_that_belongs_to_it() -> None:
    """Options that differ from the agent's own defaults are there to be copied."""
    text = render(
        HaproxyCfgSettings(cluster="ocr", backend="b", grpc_backend="g", slots=2, slot_prefix="s-")
    )
    command = (
        "tarn lb haproxy -c ocr --socket /var/run/haproxy.sock "
        "--backend b --grpc-backend g --slots s-"
    )
    assert f"#   {command}\n" in text
    plain = render(HaproxyCfgSettings(grpc_port=0))
    assert "#   tarn lb haproxy --socket /var/run/haproxy.sock\n" in plain
    assert "triton_grpc" not in plain


def test_the_command_prints_what_render_returns(tmp_path: Path) -> None:
    """To standard output, or into a file; each option reaches its field."""
    options = ["-c", "ocr", "--address", "10.0.0.1", "--http-port", "80", "--grpc-port", "81"]
    options += ["--stats-port", "0", "--socket", "/run/h.sock", "--backend", "b", "--longest", "60"]
    options += ["--grpc-backend", "g", "--slots", "3", "--slot-prefix", "s", "--user", ""]
    options += ["--group", "lb", "--certificate", "/etc/lb.pem", "--log", "syslog"]
    wanted = HaproxyCfgSettings(
        cluster="ocr",
        address="10.0.0.1",
        http_port=80,
        grpc_port=81,
        stats_port=0,
        socket="/run/h.sock",
        backend="b",
        grpc_backend="g",
        slots=3,
        slot_prefix="s",
        certificate="/etc/lb.pem",
        longest_s=60,
        log="syslog",
        user="",
        group="lb",
    )
    printed = CliRunner().invoke(config, options)
    assert (printed.exit_code, printed.output) == (0, render(wanted))
    file = tmp_path / "haproxy.cfg"
    lua = tmp_path / "tarn_door.lua"
    done = CliRunner().invoke(config, [*options, "-o", str(file), "--hold", "7"])
    assert done.output == f"{file}\n{lua}\n"
    keyed = KeyedRouting(door_lua=str(lua), hold_s=7)
    assert file.read_text() == render(attrs.evolve(wanted, keyed=keyed))
    assert lua.read_text() == door_text()


def test_a_directory_gets_every_file(tmp_path: Path) -> None:
    """Named as HAProxy is told."""
    done = CliRunner().invoke(config, ["-o", str(tmp_path / "new" / "haproxy")])
    assert done.exit_code == 0, done.output
    folder = tmp_path / "new" / "haproxy"
    assert sorted(one.name for one in folder.iterdir()) == ["haproxy.cfg", "tarn_door.lua"]
    text = (folder / "haproxy.cfg").read_text()
    assert f"lua-load-per-thread {folder / 'tarn_door.lua'}\n" in text
    assert "lua.tarn_hold triton_backend 60 " in text


def test_without_a_file_there_is_no_lua_program_to_name() -> None:
    """Unless it is said where one is."""
    printed = CliRunner().invoke(config, [])
    assert "lua" not in printed.output
    refused = CliRunner().invoke(config, ["--hold", "5"])
    assert isinstance(refused.exception, ConfigError)
    told = CliRunner().invoke(config, ["--hold", "0", "--door-lua", "/opt/tarn_door.lua"])
    assert "lua-load-per-thread /opt/tarn_door.lua\n" in told.output
    assert "tarn_hold" not in told.output


def test_names_and_ports_of_the_tables_are_their_own() -> None:
    """A backend of another name, and a peer's port that is taken, are refused."""
    keyed = KeyedRouting(door_lua="/etc/haproxy/tarn_door.lua")
    for taken in (
        {"backend": "tarn_sequences"},
        {"http_port": 8406},
        {"grpc_backend": "triton_backend_keyed"},
    ):
        with pytest.raises(ConfigError, match="used twice"):
            HaproxyCfgSettings(keyed=keyed, **taken)
    with pytest.raises(ConfigError, match="door_lua"):
        KeyedRouting(door_lua="relative")


def test_a_file_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    """The message has the path and the reason."""
    place = tmp_path / "nowhere" / "haproxy.cfg"
    done = CliRunner().invoke(config, ["-o", str(place)])
    assert isinstance(done.exception, ConfigError)
    assert done.exception.where == str(place)
