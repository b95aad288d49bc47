"""Ranger as tests need it: its engine's jars, and two that speak as Ranger Admin 2.9 does.

`PolicyServer` speaks the protocol by which plugins download policies. `RecordedAdmin` has
definitions, services and policies in memory; its words, its status codes, and what it adds to what
it is sent (ids, versions, times, fields that nobody named) are those of the real one.
"""

import base64
import json
import threading
from collections.abc import Callable, Mapping, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import MappingProxyType
from typing import Any, Self
from urllib.parse import parse_qs, unquote, urlsplit

from servers.maven import jars
from tarn.plugins import load
from tarn.testing.context import master_context
from tarn_plugins.authorizer.ranger.authorizer import RangerAuthorizer
from tarn_plugins.authorizer.ranger.setup_file import service_definition

RANGER = "2.9.0"
POM = f"""\
<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>tarn</groupId><artifactId>ranger</artifactId><version>1</version>
  <packaging>pom</packaging>
  <!-- Ranger's audits go through slf4j 1: with 2, which another jar asks for, they vanish. -->
  <dependencyManagement><dependencies><dependency>
    <groupId>org.slf4j</groupId><artifactId>slf4j-api</artifactId><version>1.7.36</version>
  </dependency></dependencies></dependencyManagement>
  <dependencies>
    <dependency><groupId>org.apache.ranger</groupId>
      <artifactId>ranger-plugins-common</artifactId><version>{RANGER}</version></dependency>
    <dependency><groupId>org.apache.ranger</groupId>
      <artifactId>ranger-audit-dest-log4j</artifactId><version>{RANGER}</version></dependency>
  </dependencies>
</project>
"""


def library() -> Path:
    """Return the folder with the jars."""
    return jars(f"ranger-{RANGER}", POM)


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
        self.start()
        return self

    def __exit__(self, *_error: object) -> None:
        self.stop()

    def change(self, policies: Sequence[Mapping[str, Any]]) -> None:
        """Have other policies from now on."""
        self.policies = list(policies)
        self.version += 1

    def start(self) -> None:
        """Answer, on the port of last time."""
        server = ThreadingHTTPServer(("127.0.0.1", self.port), _handler(self))
        server.daemon_threads = True
        self.port = server.server_address[1]
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        self._server = server

    def stop(self) -> None:
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


BASE = "/service/public/v2/api/"
USER, PASSWORD = "admin", "canary-of-ranger-admin"
KNOWN_USERS, KNOWN_GROUPS = {"admin", "alice", "tarn"}, {"public", "ds"}
Answer = tuple[int, object]


class RecordedAdmin:
    """Serves on a port of its own. A context."""

    def __init__(self) -> None:
        self.definitions: dict[str, dict[str, Any]] = {}
        self.services: dict[str, dict[str, Any]] = {}
        self.policies: list[dict[str, Any]] = []
        self.calls: list[str] = []
        self.status = 0
        """What every request is answered with; 0: the truth."""
        self._next = 200

    def __enter__(self) -> Self:
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _admin_handler(self))
        self._server.daemon_threads = True
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        return self

    def __exit__(self, *_error: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    @property
    def writes(self) -> list[str]:
        return [call for call in self.calls if not call.startswith("GET")]

    def answer(self, method: str, path: str, given: str, body: Any) -> Answer:
        right = base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode()
        self.calls.append(f"{method} {path}")
        if self.status:
            return self.status, _error(self.status, "an error on purpose")
        if given != f"Basic {right}":
            return 401, {"statusCode": 401, "msgDesc": "Authentication Failed"}
        kind, *rest = unquote(path).removeprefix(BASE).strip("/").split("/")
        table = {"servicedef": self._definition, "service": self._service, "policy": self._policy}
        return table[kind](method, rest, body)

    def _definition(self, method: str, rest: list[str], body: Any) -> Answer:
        if method == "POST":
            self.definitions[body["name"]] = self._kept(body)
            return 200, self.definitions[body["name"]]
        name = rest[-1]
        if name not in self.definitions:
            return 404, _error(404, "Not found")
        if method == "PUT":
            self.definitions[name] = {**self.definitions[name], **body}
        return 200, self.definitions[name]

    def _service(self, method: str, rest: list[str], body: Any) -> Answer:
        if method == "POST":
            if body["type"] not in self.definitions:
                return 400, _error(1, f"(0) Validation failure: error code[2004], {body['type']}")
            self.services[body["name"]] = self._kept(body)
            return 200, self.services[body["name"]]
        if rest[-1] == "policy":
            return 200, [one for one in self.policies if one["service"] == rest[0]]
        name = rest[-1]
        if name not in self.services:
            return 404, _error(404, "Not found")
        if method == "PUT":
            self.services[name] = {**self.services[name], **body}
        return 200, self.services[name]

    def _policy(self, method: str, rest: list[str], body: Any) -> Answer:
        for key in ("policyItems", "denyPolicyItems", "allowExceptions", "denyExceptions"):
            for item in body[key]:
                for user in set(item["users"]) - KNOWN_USERS:
                    return 400, _unknown("user", user, body)
                for group in set(item["groups"]) - KNOWN_GROUPS:
                    return 400, _unknown("group", group, body)
        if method == "PUT":
            old = next(one for one in self.policies if str(one["id"]) == rest[0])
            old.update(body, version=old["version"] + 1)
            return 200, old
        made = self._kept(body)
        resources = {kind: {**one, "isExcludes": one["isExcludes"]} for kind, one in
                     body["resources"].items()}  # fmt: skip
        made |= {"policyPriority": 0, "policyLabels": [], "validitySchedules": [],
                 "isDenyAllElse": False, "zoneName": "", "options": {}, "resources": resources,
                 "dataMaskPolicyItems": [], "rowFilterPolicyItems": []}  # fmt: skip
        # it gives accesses back in the order of the definition
        for key in ("policyItems", "denyPolicyItems"):
            for item in made[key]:
                item["accesses"] = sorted(item["accesses"], key=lambda one: one["type"])
        self.policies.append(made)
        return 200, made

    def _kept(self, body: dict[str, Any]) -> dict[str, Any]:
        self._next += 1
        times = {"createTime": 1_700_000_000_000, "updateTime": 1_700_000_000_000}
        who = {"createdBy": "Admin", "updatedBy": "Admin"}
        return {"id": self._next, "guid": f"guid-{self._next}", "version": 1, "isEnabled": True,
                **who, **times, **body}  # fmt: skip


def _unknown(kind: str, name: str, policy: dict[str, Any]) -> dict[str, Any]:
    return _error(
        1,
        f"{name}: {kind} does not exist. policy='{policy['name']}' "
        f"service='{policy['service']}' {kind}='{name}'",
    )


def _error(status: int, words: str) -> dict[str, Any]:
    return {"statusCode": status, "msgDesc": words}


def _admin_handler(admin: RecordedAdmin) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def log_message(self, *_parts: object) -> None:
            """Be quiet."""

        def _any(self) -> None:
            size = int(self.headers.get("Content-Length") or 0)
            body = json.loads(self.rfile.read(size)) if size else None
            given = self.headers.get("Authorization", "")
            status, answer = admin.answer(self.command, urlsplit(self.path).path, given, body)
            data = json.dumps(answer).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

    for method in ("GET", "POST", "PUT", "DELETE"):
        setattr(Handler, f"do_{method}", Handler._any)
    return Handler
