"""What the doctor finds in a ``haproxy.cfg``."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tarn.domain import CODES
from tarn_plugins.discovery.haproxy.cfg_file import examine
from tarn_plugins.discovery.haproxy.configuration import HaproxyCfgSettings, render

GOOD = """\
global
  stats socket /run/ha.sock mode 660 level admin # a comment
defaults
  option redispatch 1
  retries 3
backend triton_backend
  option httpchk GET /v2/health/ready
"""


def found(text: str) -> list[tuple[str, str]]:
    """Return (code, line) of each finding."""
    return [(one.code, one.where.removeprefix("a:")) for one in examine("a", text.encode())]


@pytest.mark.parametrize(
    "settings",
    [
        HaproxyCfgSettings(),
        HaproxyCfgSettings(slots=3, grpc_port=0),
        HaproxyCfgSettings(
            backend="models", certificate="/etc/cert.pem", log="syslog", user="", group=""
        ),
    ],
)
def test_what_tarn_renders_is_well(settings):
    """In every shape."""
    assert found(render(settings)) == []


def test_a_short_one_by_hand_is_well():
    """Comments and defaults are read."""
    assert found(GOOD) == []


@pytest.mark.parametrize(
    ("old", "new", "code", "line"),
    [
        ("  stats socket /run/ha.sock mode 660 level admin", "", "TARN-3608", "1"),
        ("level admin", "level operator", "TARN-3307", "2"),
        (" level admin", "", "TARN-3307", "2"),
        ("level admin", "# level admin", "TARN-3307", "2"),
        ("mode 660", "mode 666", "TARN-3609", "2"),
        ("/run/ha.sock mode 660", "ipv4@0.0.0.0:9999", "TARN-3609", "2"),
        ("/run/ha.sock mode 660", "*:9999", "TARN-3609", "2"),
        ("/run/ha.sock mode 660", ":9999", "TARN-3609", "2"),
        ("  option redispatch 1\n", "", "TARN-3612", "5"),
        ("option redispatch 1", "no option redispatch", "TARN-3612", "6"),
        ("  option httpchk GET /v2/health/ready\n", "", "TARN-3611", "6"),
        ("  retries 3\n", "  retry-on conn-failure empty-response\n", "TARN-3613", "5"),
        ("  retries 3\n", "  retry-on all-retryable-errors\n", "TARN-3613", "5"),
        ("  retries 3\n", "  retry-on 503\n", "TARN-3613", "5"),
        ("backend triton_backend", "backend web\n  server a b:1\nfrontend x", "TARN-3610", "1"),
    ],
)
def test_each_mistake_is_named_with_its_line(old, new, code, line):
    """One change of a good file, one finding."""
    assert old in GOOD
    assert found(GOOD.replace(old, new)) == [(code, line)]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("/run/ha.sock mode 660", "ipv4@127.0.0.1:9999"),
        ("/run/ha.sock mode 660", "ipv6@[::1]:9999"),
        ("/run/ha.sock mode 660", "$SOCKET mode 660"),
        ("/run/ha.sock mode 660", "unix@/run/ha.sock mode 600"),
        ("  retries 3\n", "  retry-on conn-failure 0rtt-rejected\n"),
        ("  retries 3\n", "  no option redispatch\n  option redispatch\n"),
        ("defaults\n", "defaults well\n"),
        ("backend triton_backend\n", "defaults bare\nbackend triton_backend from well\n"),
    ],
)
def test_what_is_only_written_otherwise_is_well(old, new):
    """Other words for the same thing."""
    text = GOOD.replace("defaults\n", "defaults well\n") if "from well" in new else GOOD
    assert found(text.replace(old, new)) == []


def test_defaults_count_only_for_what_follows_them():
    """An anonymous section of defaults ends the one before."""
    text = GOOD.replace("backend triton_backend", "defaults\nbackend triton_backend")
    assert [code for code, _ in found(text)] == ["TARN-3612"]


def test_several_mistakes_come_in_the_order_of_lines():
    """A person mends a file from top to bottom."""
    text = "backend triton\n  server a b:1\n"
    lines = [int(line) for _, line in found(text)]
    assert [code for code, _ in found(text)] == ["TARN-3608", "TARN-3611", "TARN-3612"]
    assert lines == sorted(lines)


@pytest.mark.parametrize("data", [b"", b"# nothing\n", b"\0\1\2", b"<gateway/>", b"hello world"])
def test_what_is_no_such_file_is_said(data):
    """And nothing else."""
    assert [one.code for one in examine("a", data)] == ["TARN-3607"]


@given(st.one_of(st.binary(max_size=300), st.text(max_size=300).map(str.encode)))
def test_no_file_breaks_it(data):
    """Whatever it holds; each finding has a code of the table, a line and a step."""
    for one in examine("a", data):
        assert one.code in CODES
        assert int(one.where.removeprefix("a:")) >= 1
        assert one.found
        assert one.next_step


WORDS = ["global", "defaults", "backend", "from", "triton", "option", "no", "redispatch", "httpchk"]
MORE = [
    "stats",
    "socket",
    "level",
    "admin",
    "mode",
    "999",
    "retry-on",
    "'",
    '"',
    "\\",
    "\n",
    "[::]",
]


@given(st.lists(st.sampled_from(WORDS + MORE), max_size=40).map(" ".join))
def test_no_order_of_its_words_breaks_it(text):
    """Also where a value is missing."""
    assert isinstance(list(examine("a", text.encode())), list)
