"""The lines of a ``haproxy.cfg`` that asks the master to authorize each request. Pure.

`tarn_authorize.lua` asks the master, and the lines here enforce its verdict: a request passes only
if the verdict is "allow". The Lua program asks through a frontend of the same HAProxy. The backend
behind that frontend sets the time limits, reuses its connections, accepts only complete answers,
and follows the master when the agent moves its server.
"""

# The Lua program does not use HAProxy's own Lua client for HTTP: that of 2.6 repeats a failed
# request by itself, so that the master would be asked four times.

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
"""In HAProxy's environment: the token by which the master trusts this HAProxy."""
GATE_VARIABLE = "TARN_KNOX_GATE"
"""In HAProxy's environment: the secret that Knox sends to prove itself."""
MASTER_BACKEND = "tarn_master"
"""The backend for authorization requests; its one server is called ``master``."""
API_BACKEND = "tarn_master_api"
"""The backend for users' own requests to the master; its one server is called ``master``."""

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
        ConfigError: A value would not be a single word in the file.
    """

    lua: str = attrs.field(validator=_path)
    """Path at which HAProxy reads `LUA`."""
    knox: tuple[str, ...] = attrs.field(default=(), validator=_networks)
    """Addresses of Knox; empty: no request is accepted as Knox's."""
    client_ca: str = attrs.field(default="", validator=_path)
    """PEM file with the authority of client certificates; '': no frontend for them."""
    certificate_port: int = attrs.field(default=8443, validator=_number(1, 65535))
    """Port for HTTP clients that have a certificate."""
    grpc_all_models: bool = False
    """Whether the operator accepts that access over gRPC is access to all models."""
    master: str = attrs.field(default="", validator=_place)
    """``address:port`` of the master; '': the agent sets it."""
    master_ca: str = attrs.field(default="", validator=_path)
    """PEM file with the authority of the master's certificate; '': the master has no TLS."""
    ask_port: int = attrs.field(default=8405, validator=_number(1, 65535))
    """Port at 127.0.0.1 to which Lua sends its authorization requests."""
    api: bool = False
    """Whether authenticated users reach the master's own API here, below ``/tarn``."""
    grace_s: int = attrs.field(default=30, validator=_number(0, _LONGEST_GRACE_S))
    """Seconds for which a right stays valid while the master cannot be reached; 0: none."""

    def __attrs_post_init__(self) -> None:
        """Require the path of the Lua file."""
        if not self.lua:
            raise _refuse("lua", self.lua, "Use the absolute path of the Lua file.")


def lua_text() -> str:
    """Return the Lua program, which is the same for every installation."""
    return Path(__file__).with_name(LUA).read_text("ascii")


def global_lines(authz: Authz, *, answers: bool = False) -> list[str]:
    """Return the lines for the section ``global``."""
    secrets = f"{TOKEN_VARIABLE} and {GATE_VARIABLE}" if authz.knox else TOKEN_VARIABLE
    return [
        f"  # reads {secrets} from the environment too: no secret stands here",
        f"  setenv TARN_AUTHZ_ASK 127.0.0.1:{authz.ask_port}",
        f"  setenv TARN_AUTHZ_GRACE {authz.grace_s}",
        f"  setenv TARN_AUTHZ_KNOX {'yes' if authz.knox else 'no'}",
        f"  setenv TARN_AUTHZ_API {'yes' if authz.api else 'no'}",
        f"  setenv TARN_AUTHZ_ANSWERS {'yes' if answers else 'no'}",
        f"  lua-load {authz.lua}",
    ]


_LOG = (
    '  log-format "%ci:%cp [%tr] %ft %b/%s %TR/%Tw/%Tc/%Tr/%Ta %ST %B %tsc %ac/%fc/%bc/%sc/%rc '
    "%sq/%bq %HM user=%[var(txn.tarn_user)] by=%[var(txn.tarn_by)] "
    'model=%[var(txn.tarn_model)] action=%[var(txn.tarn_action)] why=%[var(txn.tarn_why)]"'
)


def identity(authz: Authz) -> list[str]:
    """Return the lines that mark Knox's requests; every other request is anonymous."""
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
    """Return the lines that authenticate and authorize a request.

    Args:
        door: The frontend's protocol, ``http`` or ``grpc``.
        authz: How requests are authorized.
    """
    asked = _ASKED.replace("DOOR", door)
    if door == "grpc":
        return [_CERTIFICATE, asked]
    return [asked, _TARGET, *([_FOR_MASTER] if authz.api else [])]


def certificate_frontend(
    authz: Authz, bind: str, backend: str, before: list[str], after: list[str]
) -> str:
    """Return the frontend for clients with certificates.

    Args:
        authz: How requests are authorized.
        bind: Its ``bind`` line, without what checks certificates.
        backend: The backend for what is allowed.
        before: Its first lines.
        after: The lines for requests that are allowed.
    """
    return "\n".join(
        [
            "# for clients with a certificate: programs, and streams, which Knox would delay",
            "frontend triton_certificate",
            f"{bind} ca-file {authz.client_ca} verify required",
            *before,
            _CERTIFICATE,
            *rules("http", authz),
            *after,
            f"  default_backend {backend}",
        ]
    )


def _server(authz: Authz) -> str:
    tls = f" ssl verify required ca-file {authz.master_ca}" if authz.master_ca else ""
    if authz.master:
        return f"  # the agent moves it with the master\n  server master {authz.master}{tls}"
    return f"  # the agent keeps this at the master\n  server master 127.0.0.1:1{tls} disabled"


def api(authz: Authz) -> str:
    """Return the backend for users' own requests to the master."""
    return f"""\
backend {API_BACKEND}
  http-reuse safe
  # Knox writes JSON again, and shorter, under the length that it was told: so none is told
  http-response del-header Content-Length
  http-error status 503 {_json("no master answers")} hdr Retry-After 2
{_server(authz)} maxconn 256"""


def hop(authz: Authz) -> str:
    """Return the frontend and backend of authorization requests, which end within a second."""
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
