"""Render a complete ``haproxy.cfg`` for a fleet from a few values. Pure."""

# The facts are of HAProxy 2.6, the oldest that has everything used here. `HaproxyCfgSettings`
# refuses a value that HAProxy would not read as a single word, so nothing is ever quoted.

import ipaddress
import re
from collections.abc import Callable
from typing import Any

import attrs

from tarn.domain.endpoint import host_port
from tarn.errors import ConfigError
from tarn_plugins.discovery.haproxy import answers_door
from tarn_plugins.discovery.haproxy.affinity_text import HELD_TABLE, KEY_TABLE
from tarn_plugins.discovery.haproxy.authz import (
    API_BACKEND,
    MASTER_BACKEND,
    Authz,
    api,
    certificate_frontend,
    global_lines,
    hop,
    identity,
    rules,
)
from tarn_plugins.discovery.haproxy.keyed_routing import (
    KeyedRouting,
    begin_line,
    bounded_backend,
    key_lines,
    keyed_backend,
)

__all__ = ["LOGS", "HaproxyCfgSettings", "render"]

LOGS = ("stdout", "syslog")
"""Where the log goes: to standard output (systemd's journal, a container's log), or /dev/log."""
STREAMS = 1000
"""Calls and streams that one connection of a gRPC client may have at once; Triton has no limit."""
RETRY_AFTER_S = 2
"""The Retry-After for a client whose request found no free instance."""

_CLUSTER = re.compile(r"[a-z0-9-]{0,40}")
_WORD = re.compile(r"[A-Za-z][A-Za-z0-9_.-]{0,63}")
_ACCOUNT = re.compile(r"|[a-z_][a-z0-9_-]{0,31}")
_PATH = re.compile(r"/[A-Za-z0-9_./@+=-]{1,1023}")
# A Unix socket's path has at most 107 bytes, and HAProxy appends ".<pid>.tmp" while it binds.
_LONGEST_SOCKET = 80
_OURS = frozenset(
    {"triton_http", "triton_grpc", "triton_certificate", "haproxy_stats", "tarn_ask"}
    | {MASTER_BACKEND, API_BACKEND, KEY_TABLE, HELD_TABLE}
    | {answers_door.ANSWERS_BACKEND, answers_door.GRPC_ANSWERS_BACKEND}
)

_Check = Callable[[Any, "attrs.Attribute[Any]", Any], None]


def _refuse(field: "attrs.Attribute[Any]", value: object, right: str) -> ConfigError:
    return ConfigError(f"{field.name} is {value!r}", where="haproxy.cfg", right=right)


def _text(pattern: re.Pattern[str], right: str) -> _Check:
    def check(_settings: Any, field: "attrs.Attribute[Any]", value: Any) -> None:
        if not isinstance(value, str) or pattern.fullmatch(value) is None:
            raise _refuse(field, value, right)

    return check


def _number(least: int, most: int) -> _Check:
    def check(_settings: Any, field: "attrs.Attribute[Any]", value: Any) -> None:
        if type(value) is not int or not least <= value <= most:
            raise _refuse(field, value, f"Use a whole number from {least} to {most}.")

    return check


def _address(_settings: Any, field: "attrs.Attribute[Any]", value: Any) -> None:
    right = "Use an IPv4 address of this machine, or '*' for all of them."
    if value == "*":
        return
    try:
        ipaddress.IPv4Address(value)
    except ValueError as error:
        raise _refuse(field, value, right) from error


_name = _text(_WORD, "Use at most 64 letters, digits, '_', '.' and '-', the first a letter.")
_path = _text(_PATH, "Use an absolute path of letters, digits and '_./@+=-'.")


def _optional_path(settings: Any, field: "attrs.Attribute[Any]", value: Any) -> None:
    if value != "":
        _path(settings, field, value)


def _socket(settings: Any, field: "attrs.Attribute[Any]", value: Any) -> None:
    _path(settings, field, value)
    if len(value) > _LONGEST_SOCKET:
        right = f"The path of a Unix socket may have at most {_LONGEST_SOCKET} characters."
        raise _refuse(field, value, right)


@attrs.frozen(kw_only=True)
class HaproxyCfgSettings:
    """The values of a rendered ``haproxy.cfg``.

    Raises:
        ConfigError: A value would not be a single word in the file, or two names are equal.
    """

    cluster: str = attrs.field(
        default="", validator=_text(_CLUSTER, "Use lower-case letters, digits and '-'.")
    )
    """The cluster's name, for comments; '' if the file serves any cluster."""
    address: str = attrs.field(default="*", validator=_address)
    """Address where HAProxy listens for HTTP and gRPC; ``*``: every IPv4 address."""
    http_port: int = attrs.field(default=8080, validator=_number(1, 65535))
    grpc_port: int = attrs.field(default=8081, validator=_number(0, 65535))
    """0: no frontend for gRPC."""
    stats_port: int = attrs.field(default=8404, validator=_number(0, 65535))
    """HAProxy's page of numbers, at 127.0.0.1 only; 0: none."""
    socket: str = attrs.field(default="/var/run/haproxy.sock", validator=_socket)
    """The Runtime API's socket: who may write to it can send the traffic anywhere."""
    backend: str = attrs.field(default="triton_backend", validator=_name)
    grpc_backend: str = attrs.field(default="triton_grpc_backend", validator=_name)
    slots: int = attrs.field(default=0, validator=_number(0, 10_000))
    """Placeholder servers in each backend; 0: the agent adds and deletes servers."""
    slot_prefix: str = attrs.field(default="triton-", validator=_name)
    """Slots are ``<prefix>1``, ``<prefix>2``, and so on."""
    certificate: str = attrs.field(default="", validator=_optional_path)
    """PEM file with chain and key for HTTP and gRPC; '': no TLS."""
    longest_s: int = attrs.field(default=600, validator=_number(1, 86_400))
    """Seconds that an inference may take until its first byte, and between two bytes."""
    log: str = attrs.field(default="stdout", validator=_text(re.compile("|".join(LOGS)), str(LOGS)))
    user: str = attrs.field(
        default="haproxy", validator=_text(_ACCOUNT, "Use the name of an account, or ''.")
    )
    """The account that HAProxy changes to when root starts it; '': it does not change."""
    group: str = attrs.field(
        default="haproxy", validator=_text(_ACCOUNT, "Use the name of a group, or ''.")
    )
    """The group that may use the socket, besides *user*."""
    answers: bool = True
    """Whether the master answers Triton's management requests for the whole fleet."""
    master_ca: str = attrs.field(default="", validator=_optional_path)
    """PEM file with the authority of the master's certificate; '': the master has no TLS."""
    authz: Authz | None = None
    """How requests are authorized; None: everybody who reaches HAProxy may use every model."""
    keyed: KeyedRouting | None = None
    """How requests that belong together find their instance, and how requests wait while there is
    none; None: every request goes to any instance, and none waits."""

    def __attrs_post_init__(self) -> None:
        """Refuse values that contradict each other."""
        names = [self.backend, *([self.grpc_backend] if self.grpc_port else [])]
        if self.keyed is not None:
            names += [one for name in names for one in self.keyed.backends_of(name, "http")]
        if len({*names, *_OURS}) < len(names) + len(_OURS):
            taken = ", ".join(sorted(_OURS))
            raise ConfigError(
                f"a name is used twice: backends {', '.join(names)}; frontends {taken}",
                where="haproxy.cfg",
                right="Every backend and frontend needs a name of its own.",
            )
        self._check_ports()
        if self.authz is not None:
            self._check_doors(self.authz)

    def _check_ports(self) -> None:
        ports = [port for port in (self.http_port, self.grpc_port, self.stats_port) if port]
        if self.authz is not None:
            ports += [self.authz.ask_port]
            ports += [self.authz.certificate_port] if self.authz.client_ca else []
        if self.keyed is not None and self.keyed.peers_port:
            ports += [self.keyed.peers_port]
        if len(set(ports)) < len(ports):
            raise ConfigError(
                f"a port is used twice: {', '.join(map(str, ports))}",
                where="haproxy.cfg",
                right="HTTP, gRPC, the statistics and every other listener need a port of their "
                "own.",
            )

    def _check_doors(self, authz: Authz) -> None:
        """Refuse a frontend that cannot tell its users, or its models, apart."""
        if self.grpc_port and not authz.grpc_all_models:
            raise ConfigError(
                "a frontend for gRPC cannot tell models apart: the model's name is in the "
                "message, which HAProxy cannot read reliably",
                where="haproxy.cfg",
                right="If rights differ by model, leave the gRPC frontend out: --grpc-port 0. If "
                "a right to the model '*' is a right to all models: --grpc-all-models.",
                code="TARN-3336",
            )
        if (self.grpc_port or authz.client_ca) and not (self.certificate and authz.client_ca):
            raise ConfigError(
                "a frontend for client certificates needs its own certificate, and the "
                "authority that signs theirs",
                where="haproxy.cfg",
                right="Give both --certificate FILE and --client-ca FILE.",
            )

    @property
    def agent(self) -> str:
        """The command that starts the agent for this file."""
        words = ["tarn lb haproxy", *(["-c", self.cluster] if self.cluster else [])]
        words += ["--socket", self.socket]
        if self.backend != "triton_backend":
            words += ["--backend", self.backend]
        if self.grpc_port:
            words += ["--grpc-backend", self.grpc_backend]
        if self.slots:
            words += ["--slots", self.slot_prefix]
        if self.authz is not None:
            words += ["--authz"]
        return " ".join(words)


def render(settings: HaproxyCfgSettings) -> str:
    """Return the whole file; it ends with a newline."""
    sections = [_head(settings), _global(settings), _defaults(settings), _http(settings)]
    authz = settings.authz
    if authz is not None and authz.client_ca:
        bind = _bind(settings, authz.certificate_port, "h2,http/1.1", "")
        before, after = _routing(settings, "http", settings.backend)
        answers = answers_door.http_rules(authz) if settings.answers else []
        after = [*answers, *after]
        sections.append(certificate_frontend(authz, bind, settings.backend, before, after))
    if settings.grpc_port:
        sections.append(_grpc(settings))
    if settings.keyed is not None:
        sections.append(settings.keyed.tables)
    if authz is not None:
        sections += [hop(authz), *([api(authz)] if authz.api else [])]
    if settings.answers:
        sections.append(_answers(settings))
    if settings.stats_port:
        sections.append(_stats(settings))
    return "\n\n".join(map(_routes_last, sections)) + "\n"


def _routes_last(section: str) -> str:
    """Return *section* with ``use_backend`` behind all other rules, the order in which they count.

    HAProxy warns of another order.
    """
    lines = section.split("\n")
    routes = [line for line in lines if line.startswith("  use_backend ")]
    others = [line for line in lines if line not in routes]
    at = next((n for n, line in enumerate(others) if line.startswith("  default_backend ")), None)
    return section if at is None else "\n".join([*others[:at], *routes, *others[at:]])


def _head(settings: HaproxyCfgSettings) -> str:
    fleet = f"the TARN fleet {settings.cluster}" if settings.cluster else "a TARN fleet"
    return f"""\
# HAProxy in front of {fleet}; for HAProxy 2.6 or newer.
# Rendered by `tarn lb haproxy config`. Check it: haproxy -c -f FILE
# Servers come and go through the socket; the file need not change, nor HAProxy be reloaded:
#   {settings.agent}"""


def _global(settings: HaproxyCfgSettings) -> str:
    owners = f" user {settings.user}" if settings.user else ""
    owners += f" group {settings.group}" if settings.group else ""
    lines = [
        "global",
        "  # the Runtime API: who may write to it controls all traffic: only its group may",
        f"  stats socket {settings.socket} mode 660 level admin expose-fd listeners{owners}",
        "  stats timeout 30s",
        f"  log {'stdout format raw' if settings.log == 'stdout' else '/dev/log'} local0",
        "  # after a reload the old process ends its streams; it gets no updates, so not for ever",
        f"  hard-stop-after {settings.longest_s + 300}s",
        "  # nbthread: all cores, by HAProxy itself. maxconn: what `ulimit -n` allows, by HAProxy",
        "  # itself; a connection takes two descriptors (systemd: LimitNOFILE=)",
    ]
    if settings.grpc_port:
        lines += [
            "  # a client's connection may carry so many calls and streams at once. HAProxy's",
            "  # number is 100: the next call would wait until a stream ends, and nothing says so",
            f"  tune.h2.max-concurrent-streams {STREAMS}",
        ]
    if settings.user:
        lines.append(f"  user {settings.user}")
    if settings.group:
        lines.append(f"  group {settings.group}")
    if settings.certificate:
        lines.append("  ssl-default-bind-options ssl-min-ver TLSv1.2")
    if settings.authz is not None or settings.keyed is not None:
        lines += _LUA
    if settings.authz is not None:
        lines += global_lines(settings.authz, answers=settings.answers)
    if settings.keyed is not None:
        lines += settings.keyed.global_lines(alone=settings.authz is None)
    return "\n".join(lines)


def _defaults(settings: HaproxyCfgSettings) -> str:
    return f"""\
defaults
  mode http
  log global
  option httplog
  option dontlognull
  # a machine that is there answers at once; one that is not must not hold a request for long
  timeout connect 2s
  timeout check 2s
  # the longest inference, and a little more, so that it is the server's side that is blamed
  timeout server {settings.longest_s}s
  timeout client {settings.longest_s + 20}s
  # every instance is at its limit: wait this long for a place, then 503
  timeout queue 30s
  timeout http-request 10s
  timeout http-keep-alive 60s
  timeout client-fin 30s
  timeout tunnel 1h
  # without it the words of a streamed answer wait up to 200 ms for one another
  option http-no-delay
  # who left while queueing is not served
  option abortonclose
  # Only where no connection came about is a request sent again, and at once to another instance.
  # Once it was sent it may have run, and an inference must not run twice: no empty-response here.
  retries 3
  retry-on conn-failure
  option redispatch 1
  # a client's first request never meets a connection that its server is just closing
  http-reuse safe
  # no instance, or none free: the agent reports it, a fleet of size 0 starts, a client comes again
  {_error(503, "no Triton instance is free")} hdr Retry-After {RETRY_AFTER_S}
  # Triton's form of an error, which its clients can read
  {_error(502, "the Triton instance ended before it answered")}
  {_error(504, "the Triton instance did not answer in time")}
  # For servers written here (those that the agent adds bring their own). Often, as a slot that is
  # filled waits up to one `inter` for its first check. Three checks, and no shutdown-sessions: one
  # that is only busy keeps its work; one that hangs is killed by its master, which ends it
  default-server inter 250ms fastinter 150ms downinter 250ms rise 1 fall 3"""


def _error(status: int, message: str) -> str:
    body = f"""'{{"error":"{message}"}}'"""
    return f"http-error status {status} content-type application/json string {body}"


def _bind(settings: HaproxyCfgSettings, port: int, alpn: str, clear: str) -> str:
    how = f"ssl crt {settings.certificate} alpn {alpn}" if settings.certificate else clear
    return f"  bind {host_port(settings.address, port)} {how}".rstrip()


_LUA = [
    "  # how Lua sees true and false: a newer HAProxy asks for it, an older one cannot be told",
    "  .if version_atleast(3.1)",
    "  tune.lua.bool-sample-conversion normal",
    "  .endif",
]
_HEALTH = """\
  option httpchk GET /v2/health/ready
  http-check expect status 200"""
_DOOR = """\
  # what only TARN says to itself; from outside it would be a lie
  http-request del-header X-TARN- -m beg"""


def _slots(settings: HaproxyCfgSettings, protocol: str) -> list[str]:
    if not settings.slots:
        return ["  # servers are added by the agent"]
    place = f"127.0.0.1:1 weight 100 check{protocol} disabled"
    named = settings.keyed is not None  # so that a place is the same server after each reload
    # not `server-template`: its servers lose check-proto, and are asked over h2 (seen in 2.6.12)
    return [
        "  # places for the agent to fill, with addresses and shares; as many as replicas.max",
        *(
            f"  server {settings.slot_prefix}{number} {place}{f' id {number}' if named else ''}"
            for number in range(1, settings.slots + 1)
        ),
    ]


def _routing(
    settings: HaproxyCfgSettings, protocol: str, backend: str
) -> tuple[list[str], list[str]]:
    """Return the first lines of a frontend, and those behind the ones that authorize."""
    if settings.keyed is None:
        return [], []
    return [begin_line(protocol)], key_lines(protocol, backend, settings.keyed)


def _keyed(settings: HaproxyCfgSettings, backend: str, protocol: str, *more: str) -> list[str]:
    keyed = settings.keyed
    if keyed is None:
        return []
    slots = _slots(settings, protocol)
    _, *bounded = keyed.backends_of(backend, "grpc" if protocol else "http")
    found = ["", keyed_backend(backend, _HEALTH, slots, more)]
    for name in bounded:
        found += ["", bounded_backend(name, keyed.imbalance, _HEALTH, slots)]
    return found


def _http(settings: HaproxyCfgSettings) -> str:
    authz = settings.authz
    before, after = _routing(settings, "http", settings.backend)
    return "\n".join(
        [
            "frontend triton_http",
            _bind(settings, settings.http_port, "h2,http/1.1", ""),
            *before,
            *([_DOOR] if authz is None else [*identity(authz), *rules("http", authz)]),
            *(answers_door.http_rules(authz) if settings.answers else []),
            *after,
            f"  default_backend {settings.backend}",
            "",
            f"backend {settings.backend}",
            "  # inferences differ in length: the instance with the fewest in hand is next",
            "  balance leastconn",
            _HEALTH,
            *_slots(settings, ""),
            *_keyed(settings, settings.backend, ""),
        ]
    )


def _grpc(settings: HaproxyCfgSettings) -> str:
    authz = settings.authz
    before, after = _routing(settings, "grpc", settings.grpc_backend)
    protocol = " port 1 check-proto h1 proto h2"
    signed = f" ca-file {authz.client_ca} verify required" if authz is not None else ""
    return "\n".join(
        [
            "# one connection of a client carries many calls; each is balanced by itself",
            "frontend triton_grpc",
            _bind(settings, settings.grpc_port, "h2", "proto h2") + signed,
            "  # a stream may rest; a call has its own deadline",
            "  timeout client 1h",
            *before,
            *([_DOOR] if authz is None else rules("grpc", authz)),
            *(answers_door.grpc_rules(authz) if settings.answers else []),
            *after,
            f"  default_backend {settings.grpc_backend}",
            "",
            f"backend {settings.grpc_backend}",
            "  # a stream stays where it began: the fewest in hand counts streams too",
            "  balance leastconn",
            "  timeout server 1h",
            "  # whether it is ready is asked over HTTP, at the port for HTTP",
            _HEALTH,
            *_slots(settings, protocol),
            *_keyed(settings, settings.grpc_backend, protocol, "  timeout server 1h"),
        ]
    )


def _answers(settings: HaproxyCfgSettings) -> str:
    authz = settings.authz
    ca = settings.master_ca if authz is None else authz.master_ca
    return answers_door.backends(settings.longest_s, ca, grpc=settings.grpc_port > 0)


def _stats(settings: HaproxyCfgSettings) -> str:
    return f"""\
# numbers for people on this machine; nothing can be changed there
frontend haproxy_stats
  bind 127.0.0.1:{settings.stats_port}
  option dontlog-normal
  stats enable
  stats uri /"""
