"""Ask the sandbox's web servers, with JSON in and out."""

import http.client
import json
from collections.abc import Sequence
from typing import Any
from urllib.parse import quote, urlencode

from tarn.errors import UnreachableError

__all__ = ["ResourceManagers", "ask", "listing"]

_TIMEOUT_S = 5.0
_OK = range(200, 300)


def ask(host: str, port: int, path: str, *, method: str = "GET", body: Any = None) -> Any:
    """Return the answer's JSON; None when it has none.

    Raises:
        UnreachableError: No connection, or an answer that is neither success nor JSON.
    """
    connection = http.client.HTTPConnection(host, port, timeout=_TIMEOUT_S)
    headers = {"Accept": "application/json", "Content-Type": "application/json"}
    try:
        connection.request(
            method, path, None if body is None else json.dumps(body).encode(), headers
        )
        response = connection.getresponse()
        data = response.read()
        if response.status not in _OK:
            raise UnreachableError(
                f"{method} answered {response.status} {response.reason}",
                where=f"http://{host}:{port}{path}",
            )
        return json.loads(data) if data else None
    except (OSError, http.client.HTTPException, ValueError) as error:
        raise UnreachableError(
            f"{method} failed: {str(error) or type(error).__name__}",
            where=f"http://{host}:{port}{path}",
        ) from error
    finally:
        connection.close()


class ResourceManagers:
    """The REST API of one ResourceManager, or of whichever of two is active."""

    def __init__(self, hosts: Sequence[str], port: int, user: str) -> None:
        self._hosts = tuple(hosts)
        self._port = port
        self._user = user

    def active(self) -> str:
        """Return the host name of the active one.

        Raises:
            UnreachableError: None is active.
        """
        last: UnreachableError | None = None
        for host in self._hosts:
            try:
                info = ask(host, self._port, "/ws/v1/cluster/info")["clusterInfo"]
            except UnreachableError as error:
                last = error
                continue
            if info.get("haState") == "ACTIVE":
                return host
        raise last or UnreachableError("no ResourceManager is active", where=self._hosts[0])

    def get(self, path: str, **query: str) -> Any:
        """Return ``/ws/v1/cluster/<path>`` of the active one."""
        return ask(self.active(), self._port, self._path(path, query))

    def put(self, path: str, body: Any) -> Any:
        """Send *body* to ``/ws/v1/cluster/<path>`` of the active one."""
        return ask(self.active(), self._port, self._path(path, {}), method="PUT", body=body)

    def post(self, path: str, body: Any) -> Any:
        """As `put`, for what is made again."""
        return ask(self.active(), self._port, self._path(path, {}), method="POST", body=body)

    def _path(self, path: str, query: dict[str, str]) -> str:
        return f"/ws/v1/cluster/{path}?{urlencode({'user.name': self._user, **query})}"


def listing(host: str, port: int, user: str, path: str = "/") -> tuple[str, ...]:
    """Return every file of HDFS below *path*, and every empty directory with a ``/`` after it."""
    query = urlencode({"op": "LISTSTATUS", "user.name": user})
    answer = ask(host, port, f"/webhdfs/v1{quote(path)}?{query}")
    found: list[str] = []
    for status in answer["FileStatuses"]["FileStatus"]:
        below = f"{path.rstrip('/')}/{status['pathSuffix']}"
        if status["type"] != "DIRECTORY":
            found.append(below)
        else:
            found += listing(host, port, user, below) or (f"{below}/",)
    return tuple(sorted(found))
