"""Signing in to a real fleet: by a link of the command line, over the death of a master."""

import contextlib
from pathlib import Path
from typing import Any

import httpx
import pytest
from house import House, kill, until

pytestmark = pytest.mark.triton

NAME = "signed"


def master(house: House) -> int:
    return int(house.ref(NAME)["pid"])


def given(house: House) -> tuple[str, str]:
    """Return the page's address and the code that `tarn dashboard` prints."""
    done = house.tarn("dashboard", "-c", NAME)
    assert done.returncode == 0, done.stderr
    assert "once" in done.stderr
    page, _, code = done.stdout.strip().partition("#code=")
    return page, code


def put(page: str, path: str, body: dict[str, str], session: str = "") -> httpx.Response:
    headers = {"X-TARN-Session": session} if session else {}
    url = page.replace("/dashboard", f"/api/v1/{path}")
    return httpx.put(url, json=body, headers=headers, trust_env=False)


def told(page: str, session: str) -> dict[str, Any] | None:
    """Return what `me` says; None: no master answers yet."""
    url = page.replace("/dashboard", "/api/v1/me")
    try:
        answer = httpx.get(url, headers={"X-TARN-Session": session}, trust_env=False)
    except httpx.TransportError:
        return None
    return dict(answer.json()) | {"status": answer.status_code}


def found(folder: Path, secrets: list[str]) -> list[str]:
    """Return the files below *folder* that hold one of *secrets*."""
    files = [path for path in folder.rglob("*") if path.is_file()]
    return [str(one) for one in files if any(s.encode() in one.read_bytes() for s in secrets)]


def arguments() -> bytes:
    """Return what every process of the machine was started with."""
    told = b""
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):  # it has ended meanwhile
            told += path.read_bytes()
    return told


def test_a_link_signs_in_and_the_session_outlives_its_master(house: House) -> None:
    """Once; the next master knows the session and no code; nothing of either is written down."""
    assert house.tarn("up", "-f", house.spec(NAME, replicas={"min": 1, "max": 1})).returncode == 0
    page, code = given(house)
    assert page == f"{house.ref(NAME)['url']}/dashboard"
    assert httpx.get(page, trust_env=False).status_code == 200
    begun = put(page, "session", {"code": code}).json()
    session = begun["session"]
    assert put(page, "session", {"code": code}).status_code == 401
    assert put(page, "pause", {"for": "1h"}, session).status_code == 200

    _, unused = given(house)
    old = master(house)
    kill(old)
    until(lambda: master(house) != old and told(page, session), 30, "the next master, there")
    said = told(page, session)
    assert said is not None
    assert (said["status"], said["via"]) == (200, "session")
    assert put(page, "session", {"code": unused}).status_code == 401
    assert put(page, "session/end", {}, session).json() == {"ended": True}
    assert (told(page, session) or {})["status"] == 401

    assert found(house.home, [code, unused, session]) == []
    assert not [s for s in (code, unused, session) if s.encode() in arguments()]
