"""What the doctor finds in a ``haproxy.cfg`` that asks the master."""

import pytest

from tarn_plugins.discovery.haproxy.authz import Authz
from tarn_plugins.discovery.haproxy.cfg_file import examine
from tarn_plugins.discovery.haproxy.configuration import HaproxyCfgSettings, render

LUA = "/etc/haproxy/tarn_authorize.lua"
PLAIN = Authz(lua=LUA, knox=("10.0.0.5",))
DOORS = Authz(lua=LUA, client_ca="/etc/ca.pem", grpc_all_models=True, master="10.0.0.7:40001")
SHAPES = [
    HaproxyCfgSettings(grpc_port=0, authz=PLAIN),
    HaproxyCfgSettings(grpc_port=0, authz=Authz(lua=LUA, master_ca="/etc/m.pem", grace_s=0)),
    HaproxyCfgSettings(grpc_port=0, authz=Authz(lua=LUA, knox=("10.0.0.5",), api=True)),
    HaproxyCfgSettings(certificate="/etc/lb.pem", slots=2, authz=DOORS),
]
TEXT = render(SHAPES[-1])


def codes(text: str) -> list[str]:
    """Return the code of each finding."""
    return [one.code for one in examine("a", text.encode())]


@pytest.mark.parametrize("settings", SHAPES)
def test_what_is_rendered_is_well(settings: HaproxyCfgSettings) -> None:
    """In every shape."""
    assert codes(render(settings)) == []


def _without(line: str, times: int = 1) -> str:
    assert line in TEXT
    return TEXT.replace(line, "", times)


DENY = """  http-request deny deny_status 403 content-type application/json string \
'{"error":"forbidden"}' unless allowed
"""
ASK, WHO = "  http-request lua.tarn_authorize http\n", "  http-request lua.tarn_identify\n"
CLAIMS = "  http-request del-header X-TARN- -m beg\n"


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        (_without(ASK), ["TARN-3338"]),
        (_without(DENY), ["TARN-3338"]),
        (_without(DENY, 3), ["TARN-3338"] * 3),
        (_without(WHO), ["TARN-3338"]),
        (_without(CLAIMS), ["TARN-3339"]),
        (TEXT.replace(CLAIMS, "").replace(WHO, CLAIMS + WHO), ["TARN-3339"] * 3),
        (TEXT.replace(ASK, f"  http-request allow if LOCALHOST\n{ASK}", 1), ["TARN-3338"]),
        (TEXT.replace(ASK, f"{ASK.rstrip()} if METH_POST\n", 1), ["TARN-3338"]),
        (TEXT.replace("unless allowed", "unless allowed or LOCALHOST", 1), ["TARN-3338"]),
        (
            TEXT + "frontend back\n  bind *:9\n  use_backend triton_backend if METH_GET\n",
            ["TARN-3338"],
        ),
        (
            TEXT + "frontend back\n  bind *:9\n  use_backend %[hdr(x)]\n",
            ["TARN-3338", "TARN-3341"],
        ),
        (TEXT.replace("bind 127.0.0.1:8405", "bind *:8405"), ["TARN-3341"]),
        (TEXT.replace("bind 127.0.0.1:8405", "bind :8405"), ["TARN-3341"]),
        (TEXT.replace("timeout server 500ms", "timeout server 30s"), ["TARN-3340"]),
        (_without("  timeout server 500ms\n"), ["TARN-3340"]),
        (_without("  http-response wait-for-body time 200ms\n"), ["TARN-3340"]),
        (TEXT.replace("setenv TARN_AUTHZ_KNOX no", "setenv TARN_PROXY_TOKEN x"), ["TARN-3342"]),
        (
            TEXT + "frontend x\n  http-request set-header X-TARN-Token abcdef\n",
            ["TARN-3342"],
        ),
        (TEXT + "frontend x\n  acl g req.hdr(X-Tarn-Gate) -m str s3cret\n", ["TARN-3342"]),
    ],
)
def test_what_would_let_somebody_pass_is_found(text: str, wanted: list[str]) -> None:
    """A rule that is missing, in another order, or under a condition."""
    assert codes(text) == wanted


def test_a_file_that_asks_nowhere_is_another_decision() -> None:
    """Nothing is said of its doors."""
    assert codes(render(HaproxyCfgSettings())) == []


def test_a_condition_written_out_is_understood() -> None:
    """As it may stand in a file of one's own."""
    own = "unless { var(txn.tarn_verdict) -m str allow }"
    assert codes(TEXT.replace("unless allowed", own)) == []
    assert codes(TEXT.replace("unless allowed", f"{own} || {{ src 10.0.0.1 }}")) != []
