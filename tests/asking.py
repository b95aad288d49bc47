"""Ask any server over HTTP, and find ports for one."""

import http.client
import socket


def free_ports() -> tuple[int, int, int]:
    with (
        socket.create_server(("127.0.0.1", 0)) as one,
        socket.create_server(("127.0.0.1", 0)) as two,
        socket.create_server(("127.0.0.1", 0)) as three,
    ):
        return one.getsockname()[1], two.getsockname()[1], three.getsockname()[1]


def has_ipv6() -> bool:
    """Say whether this machine has the loopback address of IPv6; many containers have none."""
    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
    except OSError:
        return False
    return True


def ask(port: int, method: str, path: str, body: bytes = b"") -> tuple[int, str, bytes]:
    """Return (status, content type, body)."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    try:
        connection.request(method, path, body)
        response = connection.getresponse()
        return response.status, response.headers["Content-Type"] or "", response.read()
    finally:
        connection.close()
