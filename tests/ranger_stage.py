"""A Ranger Admin for tests: it speaks the protocol by which plugins download policies.

What it answers is what Ranger Admin 2.9 answers, for as long as it is up.
"""

import json
import threading
from collections.abc import Callable, Mapping, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import MappingProxyType
from typing import Any, Self
from urllib.parse import parse_qs, urlsplit

from ranger_jars import library

from tarn.plugins import load
from tarn.testing.context import master_context
from tarn_plugins.authorizer.ranger.authorizer import RangerAuthorizer
from tarn_plugins.authorizer.ranger.definition import service_definition

SERVICE = "triton_test"
POLL_MS = 200
EVERYBODY = "public"
EMPTY: Mapping[str, str] = MappingProxyType({})


def item(
    accesses: Sequence[str], users: Sequence[str] = (), groups: Sequence[str] = ()
) -> dict[str, Any]:
    """Return one line of a policy."""
    return {
        "users": list(users),
        "groups": list(groups),
        "roles": [],
        "conditions": [],
        "accesses": [{"type": access, "isAllowed": True} for access in accesses],
        "delegateAdmin": False,
    }


def policy(  # noqa: PLR0917 (as Ranger's form asks for them)
    number: int,
    values: Sequence[str],
    allow: Sequence[Mapping[str, Any]] = (),
    deny: Sequence[Mapping[str, Any]] = (),
    allow_exceptions: Sequence[Mapping[str, Any]] = (),
    deny_exceptions: Sequence[Mapping[str, Any]] = (),
    *,
    kind: str = "model",
    excludes: bool = False,
    enabled: bool = True,
) -> dict[str, Any]:
    """Return one policy, as Ranger Admin sends it."""
    resource = {"values": list(values), "isExcludes": excludes, "isRecursive": False}
    return {
        "id": number,
        "guid": f"guid-{number}",
        "version": 1,
        "isEnabled": enabled,
        "service": SERVICE,
        "name": f"policy {number}",
        "policyType": 0,
        "policyPriority": 0,
        "isAuditEnabled": True,
        "resources": {kind: resource},
        "policyItems": list(allow),
        "denyPolicyItems": list(deny),
        "allowExceptions": list(allow_exceptions),
        "denyExceptions": list(deny_exceptions),
        "dataMaskPolicyItems": [],
        "rowFilterPolicyItems": [],
        "serviceType": "triton",
        "options": {},
        "validitySchedules": [],
        "policyLabels": [],
        "zoneName": "",
        "isDenyAllElse": False,
    }


class PolicyServer:
    """Serves policies on a port that it keeps while it is down. A context."""

    def __init__(self, policies: Sequence[Mapping[str, Any]] = ()) -> None:
        self.policies = list(policies)
        self.version = 1
        self.service = SERVICE
        self.status = 0
        """What every download is answered with; 0: the truth."""
        self.proves: Callable[[str], bool] | None = None
        """Of a Kerberized site: whether an Authorization header is a proof."""
        self.asked: list[str] = []
        self.port = 0
        self._server: ThreadingHTTPServer | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def __enter__(self) -> Self:
        self.up()
        return self

    def __exit__(self, *_error: object) -> None:
        self.down()

    def change(self, policies: Sequence[Mapping[str, Any]]) -> None:
        """Have other policies from now on."""
        self.policies = list(policies)
        self.version += 1

    def up(self) -> None:
        """Answer, on the port of last time."""
        server = ThreadingHTTPServer(("127.0.0.1", self.port), _handler(self))
        server.daemon_threads = True
        self.port = server.server_address[1]
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        self._server = server

    def down(self) -> None:
        """Refuse connections."""
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()
            self._server = None

    def download(self) -> dict[str, Any]:
        definition = {**service_definition(), "id": 200, "guid": "triton", "isEnabled": True}
        return {
            "serviceName": SERVICE,
            "serviceId": 1,
            "policyVersion": self.version,
            "policyUpdateTime": self.version * 1000,
            "policies": self.policies,
            "serviceDef": {**definition, "version": 1},
            "auditMode": "audit-default",
            "serviceConfig": {},
        }


def _handler(stage: PolicyServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        # no connection is kept: while the server is down, nobody answers
        protocol_version = "HTTP/1.0"

        def log_message(self, *_parts: object) -> None:
            """Be quiet."""

        def do_GET(self) -> None:
            stage.asked.append(self.path)
            given = self.headers.get("Authorization", "")
            if stage.proves is not None and not stage.proves(given):
                self._say(401, "", {"WWW-Authenticate": "Negotiate"})
            elif stage.status:
                self._say(stage.status, {"statusCode": 1, "msgDesc": "an error on purpose"})
            else:
                self._say(*_answer(stage, self.path))

        def _say(self, status: int, body: object, headers: Mapping[str, str] = EMPTY) -> None:
            data = body.encode() if isinstance(body, str) else json.dumps(body).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            for name, value in headers.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(data)

    return Handler


def _answer(stage: PolicyServer, path: str) -> tuple[int, object]:
    """Return status and body of an answer to a download."""
    asked = urlsplit(path)
    query = parse_qs(asked.query)
    name = asked.path.rpartition("/")[2]
    if "/roles/" in asked.path:
        roles = {"serviceName": SERVICE, "roleVersion": 1, "rangerRoles": []}
        return (304, "") if query.get("lastKnownRoleVersion") == ["1"] else (200, roles)
    if "/policies/download/" not in asked.path:
        return 404, ""
    if name != stage.service:
        return 404, f'"RANGER_ERROR_SERVICE_NOT_FOUND: ServiceName={name}"'
    known = query.get("lastKnownVersion") == [str(stage.version)]
    return (304, "") if known else (200, stage.download())


def site(directory: Path, url: str, *, audit: bool = True, also: Mapping[str, str] = EMPTY) -> Path:
    """Write what a site has in its configuration directory; return it."""
    directory.mkdir(parents=True, exist_ok=True)
    prefix = "ranger.plugin.triton.policy"
    _write(
        directory / "ranger-triton-security.xml",
        {
            f"{prefix}.rest.url": url,
            f"{prefix}.pollIntervalMs": str(POLL_MS),
            f"{prefix}.rest.client.connection.timeoutMs": "1000",
            f"{prefix}.rest.client.read.timeoutMs": "3000",
            f"{prefix}.rest.client.max.retry.attempts": "1",
            f"{prefix}.rest.client.retry.interval.ms": "50",
            **also,
        },
    )
    if audit:
        _write(
            directory / "ranger-triton-audit.xml",
            {
                "xasecure.audit.is.enabled": "true",
                "xasecure.audit.destination.log4j": "true",
                "xasecure.audit.destination.log4j.logger": "ranger.audit",
            },
        )
    return directory


def options(directory: Path, url: str, *, audit: bool = True) -> dict[str, Any]:
    """Return ``authorizer.options``, with the site's files in *directory*."""
    return {
        "service": SERVICE,
        "audit": audit,
        "conf_dir": str(site(directory, url, audit=audit)),
        "jars": str(library()),
    }


def _write(path: Path, properties: Mapping[str, str]) -> None:
    rows = [
        f"<property><name>{name}</name><value>{value}</value></property>"
        for name, value in properties.items()
    ]
    path.write_text("<configuration>" + "".join(rows) + "</configuration>")


POLICIES = (
    policy(1, ["ocr*"], [item(["infer"], ["alice"])]),
    policy(2, ["llama"], [item(["list"], groups=[EVERYBODY])]),
    policy(3, ["fleet"], [item(["admin"], groups=["ml-admins"])], kind="cluster"),
)


def opened(folder: Path, url: str, **more: Any) -> RangerAuthorizer:
    """Return an authorizer as a master in *folder* makes it; it is being opened."""
    plugins = load()
    factory = plugins.authorizers["ranger"]
    chosen = {**options(folder / "site", url, audit=more.get("audit", True)), **more}
    made = factory.create(plugins.settings(factory, chosen, "options"), master_context(folder))
    assert isinstance(made, RangerAuthorizer)
    return made
