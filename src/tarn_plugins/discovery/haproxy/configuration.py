"""A complete ``haproxy.cfg`` for a fleet, from a few values. Pure.

Facts are of HAProxy 2.6, the oldest that has everything used here. A value that HAProxy could read
as anything but one word is refused when `HaproxyCfgSettings` is made, so nothing is ever quoted.
"""

import ipaddress
import re
from collections.abc import Callable
from typing import Any

import attrs

from tarn.domain.address import host_port
from tarn.errors import ConfigError
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

__all__ = ["LOGS", "HaproxyCfgSettings", "render"]

LOGS = ("stdout", "syslog")
"""Where a log can go: what started HAProxy (systemd's journal, a container's log), or /dev/log."""
RETRY_AFTER_S = 2
"""What a client is told that came when no instance was free."""

_CLUSTER = re.compile(r"[a-z0-9-]{0,40}")
_WORD = re.compile(r"[A-Za-z][A-Za-z0-9_.-]{0,63}")
_ACCOUNT = re.compile(r"|[a-z_][a-z0-9_-]{0,31}")
_PATH = re.compile(r"/[A-Za-z0-9_./@+=-]{1,1023}")
_LONGEST_SOCKET = 80
"""A Unix socket's path has at most 107 bytes, and HAProxy binds it with ``.<pid>.tmp`` behind."""
_OURS = frozenset(
    {"triton_http", "triton_grpc", "triton_certificate", "haproxy_stats", "tarn_ask"}
    | {MASTER_BACKEND, API_BACKEND}
)
"""Names that are taken, most by the frontends."""

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
    """What a rendered ``haproxy.cfg`` differs in.

    Raises:
        ConfigError: a value would not be one word in the file, or two names meet.
    """

    cluster: str = attrs.field(
        default="", validator=_text(_CLUSTER, "Use lower-case letters, digits and '-'.")
    )
    """Named in comments only; '' where the file is for any."""
    address: str = attrs.field(default="*", validator=_address)
    """Where both doors listen; ``*``: at every IPv4 address."""
    http_port: int = attrs.field(default=8080, validator=_number(1, 65535))
    grpc_port: int = attrs.field(default=8081, validator=_number(0, 65535))
    """0: no door for gRPC."""
    stats_port: int = attrs.field(default=8404, validator=_number(0, 65535))
    """HAProxy's page of numbers, at 127.0.0.1 only; 0: none."""
    socket: str = attrs.field(default="/var/run/haproxy.sock", validator=_socket)
    """The Runtime API: who can write to it can send the traffic anywhere."""
    backend: str = attrs.field(default="triton_backend", validator=_name)
    grpc_backend: str = attrs.field(default="triton_grpc_backend", validator=_name)
    slots: int = attrs.field(default=0, validator=_number(0, 10_000))
    """Placeholder servers in each backend; 0: the agent adds and deletes servers."""
    slot_prefix: str = attrs.field(default="triton-", validator=_name)
    """Slots are ``<prefix>1``, ``<prefix>2``, and so on."""
    certificate: str = attrs.field(default="", validator=_optional_path)
    """PEM file with chain and key for both doors; '': clear text."""
    longest_s: int = attrs.field(default=600, validator=_number(1, 86_400))
    """Seconds that an inference may take until its first byte, and between two bytes."""
    log: str = attrs.field(default="stdout", validator=_text(re.compile("|".join(LOGS)), str(LOGS)))
    user: str = attrs.field(
        default="haproxy", validator=_text(_ACCOUNT, "Use the name of an account, or ''.")
    )
    """Who HAProxy becomes after it was started by root; '': it stays who it is."""
    group: str = attrs.field(
        default="haproxy", validator=_text(_ACCOUNT, "Use the name of a group, or ''.")
    )
    """Who may use the socket, besides *user*."""
    authz: Authz | None = None
    """How requests are authorized; None: whoever reaches HAProxy may use every model."""

    def __attrs_post_init__(self) -> None:
        """Refuse what no field alone can know."""
        names = [self.backend, *([self.grpc_backend] if self.grpc_port else [])]
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
        if len(set(ports)) < len(ports):
            raise ConfigError(
                f"a port is used twice: {', '.join(map(str, ports))}",
                where="haproxy.cfg",
                right="HTTP, gRPC, the statistics and every other listener need a port of their "
                "own.",
            )

    def _check_doors(self, authz: Authz) -> None:
        """Refuse a door whose clients cannot prove who they are, or what is asked for."""
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
        """The command that keeps the servers of this file in step with the fleet."""
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
        sections.append(certificate_frontend(authz, bind, settings.backend))
    if settings.grpc_port:
        sections.append(_grpc(settings))
    if authz is not None:
        sections += [hop(authz), *([api(authz)] if authz.api else [])]
    if settings.stats_port:
        sections.append(_stats(settings))
    return "\n\n".join(sections) + "\n"


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
    if settings.user:
        lines.append(f"  user {settings.user}")
    if settings.group:
        lines.append(f"  group {settings.group}")
    if settings.certificate:
        lines.append("  ssl-default-bind-options ssl-min-ver TLSv1.2")
    if settings.authz is not None:
        lines += global_lines(settings.authz)
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
    # not `server-template`: its servers lose check-proto, and are asked over h2 (seen in 2.6.12)
    return [
        "  # places for the agent to fill, with addresses and shares; as many as replicas.max",
        *(
            f"  server {settings.slot_prefix}{number} {place}"
            for number in range(1, settings.slots + 1)
        ),
    ]


def _http(settings: HaproxyCfgSettings) -> str:
    authz = settings.authz
    return "\n".join(
        [
            "frontend triton_http",
            _bind(settings, settings.http_port, "h2,http/1.1", ""),
            *([_DOOR] if authz is None else [*identity(authz), *rules("http", authz)]),
            f"  default_backend {settings.backend}",
            "",
            f"backend {settings.backend}",
            "  # inferences differ in length: the instance with the fewest in hand is next",
            "  balance leastconn",
            _HEALTH,
            *_slots(settings, ""),
        ]
    )


def _grpc(settings: HaproxyCfgSettings) -> str:
    authz = settings.authz
    signed = f" ca-file {authz.client_ca} verify required" if authz is not None else ""
    return "\n".join(
        [
            "# one connection of a client carries many calls; each is balanced by itself",
            "frontend triton_grpc",
            _bind(settings, settings.grpc_port, "h2", "proto h2") + signed,
            "  # a stream may rest; a call has its own deadline",
            "  timeout client 1h",
            *([_DOOR] if authz is None else rules("grpc", authz)),
            f"  default_backend {settings.grpc_backend}",
            "",
            f"backend {settings.grpc_backend}",
            "  # a stream stays where it began: the fewest in hand counts streams too",
            "  balance leastconn",
            "  timeout server 1h",
            "  # whether it is ready is asked over HTTP, at the port for HTTP",
            _HEALTH,
            *_slots(settings, " port 1 check-proto h1 proto h2"),
        ]
    )


def _stats(settings: HaproxyCfgSettings) -> str:
    return f"""\
# numbers for people on this machine; nothing can be changed there
frontend haproxy_stats
  bind 127.0.0.1:{settings.stats_port}
  option dontlog-normal
  stats enable
  stats uri /"""
