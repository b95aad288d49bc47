"""What stands in a ``haproxy.cfg`` that asks the master whether a request may pass. Pure.

`tarn_authorize.lua` decides, the lines here obey it: a request passes only where it said "allow".
It asks through a frontend of the same HAProxy: the backend behind it has the time limits, keeps its
connections, passes on nothing but a whole answer, and is moved by the agent when the master moves.
(Lua's own HTTP client is not used: in HAProxy 2.6 it asks four times, unasked.)
"""

import ipaddress
import re
from pathlib import Path
from typing import Any

import attrs

from tarn.errors import ConfigError

__all__ = [
    "API_BACKEND",
    "GATE_VARIABLE",
    "LUA",
    "MASTER_BACKEND",
    "TOKEN_VARIABLE",
    "Authz",
    "api",
    "certificate_frontend",
    "global_lines",
    "hop",
    "identity",
    "lua_text",
    "rules",
]

LUA = "tarn_authorize.lua"
TOKEN_VARIABLE = "TARN_PROXY_TOKEN"  # noqa: S105 (a name)
"""Of HAProxy's environment: proves it to the master, as a trusted proxy."""
GATE_VARIABLE = "TARN_KNOX_GATE"
"""The same: what Knox sends to prove itself."""
MASTER_BACKEND = "tarn_master"
"""Where questions go; its one server is called ``master``."""
API_BACKEND = "tarn_master_api"
"""Where people's own requests to the master go; the same of its server."""

_PATH = re.compile(r"/[A-Za-z0-9_./@+=-]{1,1023}")
_LONGEST_GRACE_S = 3600


def _refuse(option: str, value: object, right: str) -> ConfigError:
    return ConfigError(f"{option} is {value!r}", where="haproxy.cfg", right=right)


def _path(_authz: Any, field: "attrs.Attribute[Any]", value: str) -> None:
    if value and not _PATH.fullmatch(value):
        right = "Use an absolute path of letters, digits and '_./@+=-'."
        raise _refuse(field.name, value, right)


def _networks(_authz: Any, field: "attrs.Attribute[Any]", value: tuple[str, ...]) -> None:
    for one in value:
        try:
            ipaddress.ip_network(one)
        except ValueError as error:
            right = "Use an address or a network: 10.0.0.5, 10.0.0.0/24."
            raise _refuse(field.name, one, right) from error


def _place(_authz: Any, field: "attrs.Attribute[Any]", value: str) -> None:
    if not value:
        return
    host, _, port = value.rpartition(":")
    try:
        ipaddress.IPv4Address(host)
    except ValueError as error:
        right = "Use an IPv4 address with a port: 10.0.0.7:40001."
        raise _refuse(field.name, value, right) from error
    if not port.isascii() or not port.isdecimal() or not 0 < int(port) < 2**16:
        raise _refuse(field.name, value, "Use a port from 1 to 65535.")


def _number(least: int, most: int) -> Any:
    def check(_authz: Any, field: "attrs.Attribute[Any]", value: Any) -> None:
        if type(value) is not int or not least <= value <= most:
            raise _refuse(field.name, value, f"Use a whole number from {least} to {most}.")

    return check


@attrs.frozen(kw_only=True)
class Authz:
    """How requests are authorized.

    Raises:
        ConfigError: A value would not be one word in the file.
    """

    lua: str = attrs.field(validator=_path)
    """Where HAProxy finds `LUA`."""
    knox: tuple[str, ...] = attrs.field(default=(), validator=_networks)
    """Addresses from which Knox comes; none: nobody is believed to be Knox."""
    client_ca: str = attrs.field(default="", validator=_path)
    """PEM file with who signs certificates of clients; '': no door for them."""
    certificate_port: int = attrs.field(default=8443, validator=_number(1, 65535))
    """Where clients with certificates come in, by HTTP."""
    grpc_all_models: bool = False
    """Whether it is accepted that a right at the door for gRPC is one to all models."""
    master: str = attrs.field(default="", validator=_place)
    """``address:port`` of the master; '': the agent says it."""
    master_ca: str = attrs.field(default="", validator=_path)
    """PEM file that the certificate of the master is checked against; '': it speaks clear text."""
    ask_port: int = attrs.field(default=8405, validator=_number(1, 65535))
    """At 127.0.0.1; where Lua asks."""
    api: bool = False
    """Whether people who are known reach the master's own API here, below ``/tarn``."""
    grace_s: int = attrs.field(default=30, validator=_number(0, _LONGEST_GRACE_S))
    """Seconds for which a right outlives a master that cannot be reached; 0: none."""

    def __attrs_post_init__(self) -> None:
        """Refuse a file that is none."""
        if not self.lua:
            raise _refuse("lua", self.lua, "Use the absolute path of the Lua file.")


def lua_text() -> str:
    """Return the program for HAProxy's Lua, which is the same for every installation."""
    return Path(__file__).with_name(LUA).read_text("ascii")


def global_lines(authz: Authz) -> list[str]:
    """Return what belongs into ``global``."""
    secrets = f"{TOKEN_VARIABLE} and {GATE_VARIABLE}" if authz.knox else TOKEN_VARIABLE
    return [
        f"  # reads {secrets} from the environment too: no secret stands here",
        f"  setenv TARN_AUTHZ_ASK 127.0.0.1:{authz.ask_port}",
        f"  setenv TARN_AUTHZ_GRACE {authz.grace_s}",
        f"  setenv TARN_AUTHZ_KNOX {'yes' if authz.knox else 'no'}",
        f"  setenv TARN_AUTHZ_API {'yes' if authz.api else 'no'}",
        f"  lua-load {authz.lua}",
    ]


_LOG = (
    '  log-format "%ci:%cp [%tr] %ft %b/%s %TR/%Tw/%Tc/%Tr/%Ta %ST %B %tsc %ac/%fc/%bc/%sc/%rc '
    "%sq/%bq %HM user=%[var(txn.tarn_user)] by=%[var(txn.tarn_by)] "
    'model=%[var(txn.tarn_model)] action=%[var(txn.tarn_action)] why=%[var(txn.tarn_why)]"'
)


def identity(authz: Authz) -> list[str]:
    """Return the lines of the door at which Knox may come in, and everybody else is anonymous."""
    if not authz.knox:
        return ["  # no request counts as Knox's here: every user is anonymous"]
    source = " ".join(authz.knox)
    return [
        "  # Knox connects from there with the gateway secret; everybody else is anonymous",
        f"  http-request set-var(txn.tarn_from_knox) bool(true) if {{ src {source} }}",
    ]


def _json(message: str) -> str:
    return f"""content-type application/json string '{{"error":"{message}"}}'"""


_CERTIFICATE = f"""\
  # the common name is the user; two of them would be two users
  acl proven ssl_c_verify 0
  acl named ssl_c_s_dn(cn) -m found
  acl named_twice ssl_c_s_dn(cn,2) -m found
  http-request deny deny_status 403 {_json("no user is proven")} if !proven or !named or named_twice
  http-request set-var(txn.tarn_certificate) ssl_c_s_dn(cn)"""
_ASKED = f"""\
{_LOG}
  http-request lua.tarn_identify
  acl two_users var(txn.tarn_refused) -m str 400
  acl refused var(txn.tarn_refused) -m found
  http-request deny deny_status 400 {_json("two users are named")} if two_users
  http-request deny deny_status 403 {_json("no user is proven")} if refused
  # what only TARN says to itself; from outside it would be a lie
  http-request del-header X-TARN- -m beg
  http-request del-header Upgrade
  http-request lua.tarn_authorize DOOR
  acl unknown var(txn.tarn_verdict) -m str unknown
  acl allowed var(txn.tarn_verdict) -m str allow
  http-request return status 503 {_json("whether you may cannot be asked now")} \
hdr Retry-After 2 if unknown
  http-request deny deny_status 403 {_json("forbidden")} unless allowed
  http-request set-header X-TARN-User %[var(txn.tarn_user)]"""
_TARGET = """\
  # the instance gets the path that was read here, and nothing before or behind it
  http-request set-uri %[var(txn.tarn_target)]"""
_FOR_MASTER = f"""\
  # to the master goes who it is, and what proves this HAProxy; nothing of a proof of theirs
  acl for_master var(txn.tarn_action) -m str master
  http-request del-header Authorization if for_master
  http-request del-header Cookie if for_master
  http-request set-header X-TARN-Token %[env({TOKEN_VARIABLE})] if for_master
  use_backend {API_BACKEND} if for_master"""


def rules(door: str, authz: Authz) -> list[str]:
    """Return who asks, whether they may, and what the instance hears; *door*: http or grpc."""
    asked = _ASKED.replace("DOOR", door)
    if door == "grpc":
        return [_CERTIFICATE, asked]
    return [asked, _TARGET, *([_FOR_MASTER] if authz.api else [])]


def certificate_frontend(authz: Authz, bind: str, backend: str) -> str:
    """Return the door for clients with certificates, which may stream: Knox would hold that up."""
    return "\n".join(
        [
            "# for clients with a certificate: programs, and streams, which Knox would delay",
            "frontend triton_certificate",
            f"{bind} ca-file {authz.client_ca} verify required",
            _CERTIFICATE,
            *rules("http", authz),
            f"  default_backend {backend}",
        ]
    )


def _server(authz: Authz) -> str:
    tls = f" ssl verify required ca-file {authz.master_ca}" if authz.master_ca else ""
    if authz.master:
        return f"  # the agent moves it with the master\n  server master {authz.master}{tls}"
    return f"  # the agent keeps this at the master\n  server master 127.0.0.1:1{tls} disabled"


def api(authz: Authz) -> str:
    """Return the way of people's own requests to the master."""
    return f"""\
backend {API_BACKEND}
  http-reuse safe
  # Knox writes JSON again, and shorter, under the length that it was told: so none is told
  http-response del-header Content-Length
  http-error status 503 {_json("no master answers")} hdr Retry-After 2
{_server(authz)} maxconn 256"""


def hop(authz: Authz) -> str:
    """Return the way to the master, which ends in a second whatever the master does."""
    return f"""\
# Lua asks the master here. Each request carries the token; other clients of this port have none.
frontend tarn_ask
  bind 127.0.0.1:{authz.ask_port}
  option dontlog-normal
  http-request deny deny_status 403 unless METH_GET {{ path /authorize }}
  default_backend {MASTER_BACKEND}

backend {MASTER_BACKEND}
  # gone: known at once. Silent: half a second. Dripping its body: 0.2 s. Dripping its head, which
  # no limit here would end: Lua gives up after a second
  timeout connect 250ms
  timeout queue 250ms
  timeout server 500ms
  http-response wait-for-body time 200ms
  # once, and on a connection that is kept
  retries 0
  no option redispatch
  http-reuse always
  # a word that is neither is not an answer, whatever is in it
  acl whole res.hdr_cnt(content-length) eq 1
  acl word res.body -m str true false
  acl ok status 200
  # a master that cannot tell now counts as one that is away: 503, its authorizer is not ready;
  # 429, this user has asked too often. Neither is a no, and a yes only within its grace
  http-response return status 503 content-type text/plain string away if {{ status 429 503 }}
  http-response set-var(txn.said) status
  http-response deny deny_status 500 content-type text/plain lf-string master-%[var(txn.said)] \
unless ok whole word
  # the words of this hop itself: only after these a right may outlive its time
  http-error status 502 content-type text/plain string away
  http-error status 503 content-type text/plain string away
  http-error status 504 content-type text/plain string away
{_server(authz)} maxconn 64"""
