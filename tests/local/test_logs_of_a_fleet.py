"""Logs of a real fleet on this machine: as one, over HTTP, as they grow, and after its end."""

import json
import threading

import httpx
import pytest
from house import House, ids, until

pytestmark = pytest.mark.triton


@pytest.mark.timeout(180)
def test_logs_of_a_fleet_are_one_and_outlive_it(house: House) -> None:
    """A new instance is followed, a bound is kept, and what ended is still read."""
    spec = house.spec("logged", log={"format": "json"}, replicas={"min": 1, "max": 3, "initial": 1})
    done = house.tarn("up", "-f", spec)
    assert done.returncode == 0, done.stderr
    (first,) = ids(house.status("logged"))

    following = house.start("logs", "-c", "logged", "--all", "-f", "--tail", "5", "-o", "json")
    assert following.stdout is not None
    seen: list[dict[str, object]] = []
    stdout = following.stdout
    reader = threading.Thread(
        target=lambda: seen.extend(json.loads(line) for line in stdout), daemon=True
    )
    reader.start()
    try:
        until(lambda: len(seen) == 5, 20, "the last five lines")
        assert house.tarn("scale", "-c", "logged", "2").returncode == 0
        second = until(lambda: (ids(house.status("logged")) - {first}) or None, 30).pop()
        until(lambda: any(one["source"] == second for one in seen), 20, "lines of the new one")
        # all that it says, from its first line on
        until(lambda: any("server_id" in str(o["line"]) and second in str(o["line"]) for o in seen),
              10, "its table of options")  # fmt: skip
    finally:
        following.terminate()
        following.communicate(timeout=10)
    reader.join(10)

    whole = [json.loads(line) for line in _lines(house, "--all", "-o", "json")]
    assert {one["source"] for one in whole} == {"master", first, second}
    times = [one["at"] for one in whole if one["source"] != "master"]
    assert times == sorted(times)
    assert _lines(house, "--all", "--tail", "1")[0].partition(" |")[0].strip() in (
        "master", first, second,
    )  # fmt: skip
    assert _lines(house, first, "--since", "1970-01-01") == _lines(house, first)

    url = str(house.ref("logged")["url"])
    token = (house.directory("logged") / "api_token").read_text().strip()
    with httpx.Client(base_url=url, headers={"X-TARN-Token": token}, trust_env=False) as web:
        asked = web.get("/api/v1/logs", params={"instance": first, "lines": 3}).json()
        assert asked == {"instance": first, "lines": _lines(house, first)[-3:], "truncated": True}
        own = web.get("/api/v1/logs", params={"lines": 2000}).json()
        assert json.loads(own["lines"][0])["message"]
        assert web.get("/api/v1/logs", params={"instance": "logged-9999"}).status_code == 404
        assert web.get("/api/v1/logs", headers={"X-TARN-Token": "x"}).status_code == 401

    assert house.tarn("down", "-c", "logged").returncode == 0
    after = [json.loads(line) for line in _lines(house, "--all", "-o", "json")]
    assert {one["source"] for one in after} == {"master", first, second}
    assert any("server_id" in line for line in _lines(house, first))
    assert house.tarn("logs", "-c", "never-was").returncode == 3


def _lines(house: House, *arguments: str) -> list[str]:
    done = house.tarn("logs", "-c", "logged", *arguments)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()
