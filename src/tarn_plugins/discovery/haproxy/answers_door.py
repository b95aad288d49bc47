"""The lines of a ``haproxy.cfg`` that send Triton's management requests to the master. Pure.

The master answers for the whole fleet in Triton's form, below ``/triton``. While it is away,
what a single instance can answer for all (metadata, configuration, readiness) goes to an instance;
what only all can (statistics, the index, loads and settings) is refused. Inference never goes to
the master.

Without ``--authz`` nobody proves a user here. The agent sets the variable `TOKEN`: with it the
master answers what any instance would answer to everybody. A client with a token of its own sends
it in ``Authorization``.
"""

from collections.abc import Mapping

from tarn_plugins.discovery.haproxy.authz import TOKEN_VARIABLE, Authz

__all__ = [
    "ANSWERS_BACKEND",
    "GRPC_ANSWERS_BACKEND",
    "GRPC_LACKS",
    "TOKEN",
    "backends",
    "grpc_rules",
    "http_rules",
    "variables",
]

ANSWERS_BACKEND = "tarn_answers"
"""The backend for management requests over HTTP; its one server is called ``master``."""
GRPC_ANSWERS_BACKEND = "tarn_answers_grpc"
"""The same for gRPC."""
TOKEN = "proc.tarn_answers"  # noqa: S105 (a name)
"""HAProxy's variable with the token that the agent sets."""
GRPC_LACKS = "proc.tarn_answers_grpc"
"""HAProxy's variable that is ``no`` if the master has no gRPC."""

_WHOLE = (
    r"^/v2/(models/stats|models/[^/]+(/versions/[^/]+)?/stats|(models/[^/]+/)?trace/setting"
    r"|repository/index|repository/models/[^/]+/(load|unload)|logging"
    r"|(system|cuda)sharedmemory/.*)$"
)
_EACH = r"^/v2(/models/[^/]+(/versions/[^/]+)?(/config|/ready)?)?$"
_SERVICE = "^/inference.GRPCInferenceService/"
_WHOLE_GRPC = (
    "(ModelStatistics|RepositoryIndex|RepositoryModelLoad|RepositoryModelUnload|TraceSetting"
    "|LogSettings|(System|Cuda)SharedMemory(Status|Register|Unregister))$"
)
_EACH_GRPC = "(ServerMetadata|ModelReady|ModelMetadata|ModelConfig)$"


def variables(token: str, *, grpc: bool) -> Mapping[str, str]:
    """Return the values of HAProxy's variables, by name."""
    return {TOKEN: token, GRPC_LACKS: "yes" if grpc else "no"}


def _proof(authz: Authz | None) -> list[str]:
    answers = "{ var(txn.tarn_answers) -m bool }"
    # HAProxy may stand where the runtime's proxy does, whose cookie the master believes.
    cookie = f"  http-request del-header Cookie if {answers}"
    if authz is None:
        return [
            cookie,
            "  # who proves more than that sends it in Authorization",
            (
                f"  http-request set-header X-TARN-Token %[var({TOKEN})] if {answers} "
                "!{ req.hdr(Authorization) -m found }"
            ),
        ]
    return [
        cookie,
        "  # to the master goes who it is, and what proves this HAProxy",
        f"  http-request del-header Authorization if {answers}",
        f"  http-request set-header X-TARN-Token %[env({TOKEN_VARIABLE})] if {answers}",
    ]


def http_rules(authz: Authz | None) -> list[str]:
    """Return the lines of a frontend for HTTP."""
    return [
        "  # what concerns the whole fleet is answered by the master, in Triton's form",
        f"  acl tarn_whole path -m reg {_WHOLE}",
        "  # an instance can answer this as well, while the master is away",
        f"  acl tarn_each path -m reg {_EACH}",
        f"  acl tarn_master_up nbsrv({ANSWERS_BACKEND}) gt 0",
        (
            "  http-request set-var(txn.tarn_answers) bool(true) if tarn_whole or tarn_each "
            "tarn_master_up"
        ),
        "  http-request set-path /triton%[path] if { var(txn.tarn_answers) -m bool }",
        *_proof(authz),
        f"  use_backend {ANSWERS_BACKEND} if {{ var(txn.tarn_answers) -m bool }}",
    ]


def _grpc_error(status: int, message: str, condition: str) -> list[str]:
    # An answer without a message has its status among the headers.
    return [
        f"  http-request set-var(txn.tarn_refused_grpc) bool(true) if {condition}",
        (
            f"  http-request return status 200 hdr grpc-status {status} "
            f"hdr grpc-message '{message}' if {condition}"
        ),
    ]


def grpc_rules(authz: Authz | None) -> list[str]:
    """Return the lines of a frontend for gRPC."""
    return [
        "  # what concerns the whole fleet is answered by the master",
        f"  acl tarn_whole path -m reg {_SERVICE}{_WHOLE_GRPC}",
        f"  acl tarn_each path -m reg {_SERVICE}{_EACH_GRPC}",
        f"  acl tarn_master_up nbsrv({GRPC_ANSWERS_BACKEND}) gt 0",
        f"  acl tarn_no_grpc var({GRPC_LACKS}) -m str no",
        (
            "  http-after-response set-header content-type application/grpc "
            "if { var(txn.tarn_refused_grpc) -m bool }"
        ),
        *_grpc_error(
            12,
            "the master of this fleet has no gRPC: it needs tarn-orchestrator[grpc]; ask over HTTP",
            "tarn_whole !tarn_master_up tarn_no_grpc",
        ),
        *_grpc_error(14, "no master answers", "tarn_whole !tarn_master_up"),
        (
            "  http-request set-var(txn.tarn_answers) bool(true) if tarn_whole or tarn_each "
            "tarn_master_up"
        ),
        *_proof(authz),
        f"  use_backend {GRPC_ANSWERS_BACKEND} if {{ var(txn.tarn_answers) -m bool }}",
    ]


def backends(longest_s: int, master_ca: str, *, grpc: bool) -> str:
    """Return the backends; *longest_s* is how long a load may take."""
    tls = f" ssl verify required ca-file {master_ca}" if master_ca else ""
    http = f"""\
# the master of the fleet: the agent keeps its place, and starts its checks
backend {ANSWERS_BACKEND}
  http-reuse safe
  # a load is answered when every instance has the model
  timeout server {longest_s}s
  option httpchk GET /livez
  http-check expect status 200
  http-error status 503 content-type application/json \
string '{{"error":"no master answers"}}' hdr Retry-After 2
  server master 127.0.0.1:1{tls} check inter 1s disabled"""
    if not grpc:
        return http
    # With a port of its own a check does not speak TLS by itself.
    alpn = " alpn h2 check-ssl check-alpn http/1.1" if tls else ""
    return f"""\
{http}

backend {GRPC_ANSWERS_BACKEND}
  timeout server {longest_s}s
  # whether it answers is asked over HTTP, at the port for HTTP
  option httpchk GET /livez
  http-check expect status 200
  server master 127.0.0.1:1{tls}{alpn} proto h2 check port 1 check-proto h1 inter 1s disabled"""
