"""The rule behind the table: who somebody is, then what they may."""

import csv
from pathlib import Path

MATRIX = Path(__file__).with_name("matrix.csv")
ALL = frozenset({"view", "authorize", "admin"})
FLEET = {"holder": ALL, "proxy": ALL - {"admin"}, "alice": frozenset({"view"}), "bob": frozenset()}

FREE = {"metadata", "authorize self"}
"""Questions about a model, by whoever proved who they are."""


def who(door: str, proof: str) -> str:
    """Return who asks: a user, the token's holder, the proxy itself; empty: nobody."""
    if door == "Knox":
        return {"SPNEGO": "alice", "forged header": "bob"}.get(proof, "")
    if proof == "SPNEGO" or (door, proof) in {("trusted proxy", "header"), ("RM proxy", "cookie")}:
        return "alice"
    if door == "RM proxy" or "wrong" in proof or "forged" in proof:
        return ""
    return "holder" if proof in {"token", "session"} else "proxy" if door == "trusted proxy" else ""


def answer(door: str, proof: str, action: str) -> str:
    """Return the status, and what a question or a list says about the model."""
    user = who(door, proof)
    if not user:
        return "401"
    if action == "model control" and door != "Knox":
        return "404"
    needs = {"authorize other": "authorize", "admin": "admin", "model control": "admin"}
    if needs.get(action, "view") not in FLEET[user] and action not in FREE:
        return "403"
    if action.startswith("authorize"):  # about oneself, or about alice
        return f"200 {'true' if user == 'alice' or 'other' in action else 'false'}"
    if action == "list":  # who may change the fleet sees what models it has
        return "200 yes" if user == "alice" or "admin" in FLEET[user] else "200 no"
    return f"200 {'yes' if user == 'alice' else 'no'}" if action == "metadata" else "200"


def table() -> dict[tuple[str, str, str], str]:
    """Return what the file says: door, proof and action to the answer."""
    with MATRIX.open(newline="") as lines:
        rows = list(csv.DictReader(lines))
    plain = ("door", "credential")
    return {
        (row["door"], row["credential"], action): said
        for row in rows
        for action, said in row.items()
        if action not in plain
    }
