"""Where instances listen whose launch files cannot be read: the servers of their nodes are asked.

A Triton tells as ``name`` of its metadata (``GET /v2``) what it was started with as ``--id``: the
id of the instance. So each set of ports that an instance may have been given is tried, in the order
in which they are given; a server with another name is somebody else's.
"""

import contextlib
import http.client
import json
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor, wait

from tarn.domain import Endpoint
from tarn.domain.instance import id_of
from tarn.domain.spec import TritonSpec
from tarn_plugins.runtime.yarn.master.shapes import NoPortError, endpoint_on
from tarn_plugins.runtime.yarn.messages import AllocatedContainer

__all__ = ["candidates", "listening", "server_id"]

MOST_SETS = 32
"""Sets of ports that are tried on a node."""
WITHIN_S = 3.0
"""For all of one instance: a server that hangs must not hold up the master's beginning."""
ALL_WITHIN_S = 15.0
"""For all instances together, whatever their servers do: an answer may come byte by byte."""
_ANSWER_WITHIN_S = 1.0
_AT_ONCE = 256
"""A node that hangs keeps a thread busy for `WITHIN_S`; those behind it must get their turn."""
_LARGEST = 65_536


def listening(
    name: str,
    triton: TritonSpec,
    grants: Iterable[AllocatedContainer],
    ask: Callable[[Endpoint], str],
) -> Mapping[str, Endpoint]:
    """Return container id to the endpoint of its instance, of those that say who they are.

    Args:
        name: The cluster's.
        triton: The ports of the spec.
        grants: The containers.
        ask: Returns the id of the server at an endpoint; '' where none says it. Called on threads.
    """

    def look(grant: AllocatedContainer) -> Endpoint | None:
        give_up_s = time.monotonic() + WITHIN_S
        for endpoint in candidates(grant, triton):
            if ask(endpoint) == id_of(name, grant.number):
                return endpoint
            if time.monotonic() >= give_up_s:
                break
        return None

    pool = ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="who-listens")
    try:
        asked = {pool.submit(look, grant): grant for grant in grants if grant.number}
        answered, _ = wait(asked, ALL_WITHIN_S)
        found = {asked[each].container_id: each.result() for each in answered}
    finally:
        pool.shutdown(wait=False, cancel_futures=True)
    return {id_: endpoint for id_, endpoint in found.items() if endpoint is not None}


def candidates(grant: AllocatedContainer, triton: TritonSpec) -> Iterator[Endpoint]:
    """Yield where the instance of *grant* may listen: as the spec says first, then further on."""
    tried: list[Endpoint] = []
    with contextlib.suppress(NoPortError):
        for _ in range(MOST_SETS):
            endpoint = endpoint_on(grant.node, grant.number, triton, tried)
            yield endpoint
            tried.append(endpoint)


def server_id(endpoint: Endpoint) -> str:
    """Return what the Triton at *endpoint* was started with as ``--id``; '' where none says it."""
    line = http.client.HTTPConnection(endpoint.host, endpoint.http_port, timeout=_ANSWER_WITHIN_S)
    try:
        line.request("GET", "/v2", headers={"Connection": "close"})
        told = json.loads(line.getresponse().read(_LARGEST))
    except (OSError, ValueError, http.client.HTTPException):
        return ""
    finally:
        line.close()
    said = told.get("name") if isinstance(told, dict) else None
    return said if isinstance(said, str) else ""
