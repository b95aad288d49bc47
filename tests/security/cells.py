"""How a cell of the table is asked of a master, through whichever door."""

from collections.abc import Mapping

import httpx

__all__ = ["ask"]

QUERIES = {
    "metadata": "action=metadata",
    "authorize self": "action=infer",
    "authorize other": "action=infer&user=",
}


def ask(client: httpx.Client, action: str, headers: Mapping[str, str], whom: str) -> str:
    """Return the answer to *action* in the words of the table; *whom* is asked about."""
    if action in QUERIES:
        query = QUERIES[action] + (whom if action == "authorize other" else "")
        answer = client.get(f"/authorize?model=echo&{query}", headers=headers)
    elif action == "admin":
        answer = client.put("/api/v1/resume", headers=headers)
    elif action == "model control":
        answer = client.put("/v2/repository/models/echo/unload", headers=headers)
    else:
        path = "/config" if action == "list" else "/api/v1/status"
        answer = client.get(path, headers=headers)
    if answer.status_code != 200:
        return f"{answer.status_code}"
    if action == "list":
        return f"200 {'yes' if 'echo' in answer.text else 'no'}"
    if action == "metadata":
        return f"200 {'yes' if answer.text == 'true' else 'no'}"
    return f"200 {answer.text}" if action in QUERIES else "200"
