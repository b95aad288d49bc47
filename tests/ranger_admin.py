"""A Ranger Admin that answers as 2.9 does, in memory: definitions, services, policies.

Its words, its status codes, and what it adds to what it is sent (ids, versions, times, fields
that nobody named) are those of the real one; `calls` tells what was asked.
"""

import base64
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self
from urllib.parse import unquote, urlsplit

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
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
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


def _handler(admin: RecordedAdmin) -> type[BaseHTTPRequestHandler]:
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
