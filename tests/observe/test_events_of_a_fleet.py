"""One event, the same in the API, its stream, the log and its file; and after its master."""

import json
import subprocess
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import httpx
import pytest
from canaries import Canaries
from house import House, clear, ids, kill, until

pytestmark = [pytest.mark.triton]

NAME = "teller"
Row = Mapping[str, Any]


class Fleet:
    """A real fleet of two, whose log is JSON, and a `tarn events -f` beside it."""

    def __init__(self, house: House) -> None:
        self.house = house
        self.directory = house.directory(NAME)
        keys = {"log": {"format": "json", "level": "debug"}}
        done = house.tarn("up", "-f", house.spec(NAME, **keys), "--wait")
        assert done.returncode == 0, done.stderr
        self.follower = house.start("events", "-c", NAME, "-f", "-o", "jsonl")
        self.heard: list[Row] = []
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    @property
    def api_token(self) -> str:
        return (self.directory / "api_token").read_text().strip()

    @property
    def url(self) -> str:
        return str(self.house.ref(NAME)["url"])

    def events(self) -> list[Row]:
        answer = httpx.get(f"{self.url}/api/v1/events", headers=self.proof(), trust_env=False)
        return list(answer.json()["events"])

    def proof(self) -> dict[str, str]:
        return {"X-TARN-Token": self.api_token}

    def put(self, verb: str, body: Mapping[str, object], **headers: str) -> httpx.Response:
        url, all_headers = f"{self.url}/api/v1/{verb}", {**self.proof(), **headers}
        return httpx.put(url, json=body, headers=all_headers, trust_env=False)

    def log(self) -> list[dict[str, Any]]:
        """Return the lines of the log that are JSON: a keeper and a JVM may write others."""
        text = (self.directory / "logs" / "master.log").read_text()
        return [json.loads(line) for line in text.splitlines() if line.startswith("{")]

    def file(self) -> list[Row]:
        text = (self.directory / "logs" / "events.jsonl").read_text()
        return [json.loads(line) for line in text.splitlines()]

    def _read(self) -> None:
        assert self.follower.stdout is not None
        for line in self.follower.stdout:
            self.heard.append(json.loads(line))

    def close(self) -> None:
        self.follower.terminate()
        self.follower.wait(10)
        self._reader.join(10)
        for stream in (self.follower.stdout, self.follower.stderr):
            if stream is not None:
                stream.close()


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    house = House(tmp_path_factory.mktemp("house"))
    try:
        one = Fleet(house)
        try:
            yield one
        finally:
            one.close()
    finally:
        clear(house)


def by_code(events: list[Row], code: str) -> list[Row]:
    return [event for event in events if event["code"] == code]


def test_a_persons_request_is_followed_to_its_last_instance(fleet: Fleet) -> None:
    """The id that the answer carries leads to the decision, the instance, and the log's lines."""
    answer = fleet.put("scale", {"replicas": 3})
    request = answer.headers["x-request-id"]
    assert (answer.status_code, len(request)) == (200, 16)
    until(lambda: len(ids(fleet.house.status(NAME))) == 3, 60, "three ready")
    events = fleet.events()
    (asked,) = by_code(events, "TARN-3820")
    assert asked["request"] == {
        "id": request,
        "user": "owner",
        "via": "token",
        "address": asked["request"]["address"],
    }
    assert asked["request"]["address"].startswith("127.")
    (decided,) = by_code(events, "TARN-1200")
    (started,) = [one for one in by_code(events, "TARN-1100") if one["subject"] == f"{NAME}-0003"]
    assert decided["request"] == started["request"] == asked["request"]
    assert decided["decision"] == started["decision"] == 2
    assert {event["epoch"] for event in events} == {fleet.house.ref(NAME)["epoch"]}
    assert {event["cluster"] for event in events} == {NAME}
    assert len({event["id"] for event in events}) == len(events)
    said = [line for line in fleet.log() if line.get("request") == request]
    assert {line["logger"] for line in said} >= {"tarn.events", "tarn.http.requests"}
    assert [line["message"].split()[0] for line in said if line["logger"] == "tarn.http.requests"]
    assert {line.get("instance") for line in said} >= {f"{NAME}-0003"}


def test_an_event_is_the_same_wherever_it_stands(fleet: Fleet) -> None:
    """In the API, its stream, `tarn events`, the log and the file: every field of it."""
    events = {event["id"]: event for event in fleet.events()}
    done = fleet.house.tarn("events", "-c", NAME, "-o", "jsonl")
    printed = {one["id"]: one for one in map(json.loads, done.stdout.splitlines())}
    until(lambda: {one["id"] for one in fleet.heard} >= set(events), 10, "all were streamed")
    streamed = {one["id"]: one for one in fleet.heard}
    logged = {one["event"]["id"]: one["event"] for one in fleet.log() if "event" in one}
    filed = {one["id"]: one for one in fleet.file()}
    assert printed == events
    for name, event in events.items():
        assert streamed[name] == logged[name] == filed[name] == event


def test_each_line_of_the_log_says_whose_it_is(fleet: Fleet) -> None:
    """Cluster and epoch, a time in UTC; and no line holds the api token, in any form."""
    lines = fleet.log()
    assert len(lines) > 10
    for line in lines:
        assert set(line) >= {"at", "level", "logger", "thread", "message", "cluster", "epoch"}
        assert line["cluster"] == NAME
        assert line["at"].endswith("Z")
    assert {line["epoch"] for line in lines if line["logger"] == "tarn.events"} == {
        fleet.house.ref(NAME)["epoch"]
    }
    watched = Canaries()
    watched.add("api token", fleet.api_token)
    httpx.get(f"{fleet.url}/metrics?token={fleet.api_token}", trust_env=False)
    httpx.get(f"{fleet.url}/{fleet.api_token}", headers=fleet.proof(), trust_env=False)
    fleet.put("drain", {"instance": f"no-{fleet.api_token}"})
    fleet.put("pause", {"for": "1s", "reason": f"it was {fleet.api_token}"})
    paused = until(lambda: by_code(fleet.file(), "TARN-1201"), 10, "a pause that is told")
    assert paused
    watched.look("master.log", (fleet.directory / "logs" / "master.log").read_bytes())
    assert watched.leaks == set()


def test_what_a_killed_master_saw_is_told_by_the_next_one(fleet: Fleet) -> None:
    """Events outlive it; who follows hears each once, and goes on with what is new."""
    until(lambda: saved_all(fleet), 10, "a saved state with every event")
    before, old = fleet.events(), fleet.house.ref(NAME)
    kill(int(old["pid"]))
    until(lambda: fleet.house.ref(NAME)["epoch"] != old["epoch"], 30, "a new master")
    after = until(lambda: answered(fleet), 30, "its answer")
    assert after[: len(before)] == before
    assert {event["epoch"] for event in after[len(before) :]} == {fleet.house.ref(NAME)["epoch"]}
    newest = after[-1]["id"]
    until(lambda: newest in {one["id"] for one in fleet.heard}, 30, "the follower goes on")
    told = [(one["id"], one["count"]) for one in fleet.heard]
    assert len(told) == len(set(told))


def saved_all(fleet: Fleet) -> bool:
    newest = max(fleet.directory.glob("state-*.json"), key=lambda path: path.stat().st_mtime)
    known = {event["id"] for event in json.loads(newest.read_text())["state"]["events"]}
    return known == {event["id"] for event in fleet.events()}


def answered(fleet: Fleet) -> list[Row]:
    try:
        return fleet.events()
    except httpx.HTTPError:
        return []


def test_a_choice_of_events(fleet: Fleet) -> None:
    """By severity, by subject, by time; a choice that nothing fits is empty, not an error."""

    def codes(*arguments: str) -> list[str]:
        done = fleet.house.tarn("events", "-c", NAME, "-o", "jsonl", *arguments)
        assert done.returncode == 0, done.stderr
        return [json.loads(line)["code"] for line in done.stdout.splitlines()]

    about_one = codes("--subject", f"{NAME}-0001", "--since", "1h")
    assert about_one[:3] == ["TARN-1100", "TARN-1101", "TARN-1102"]
    assert codes("--severity", "alert") == []
    wrong = fleet.house.tarn("events", "-c", NAME, "--since", "yesterday")
    assert wrong.returncode == 2
    assert "'yesterday' is no moment" in wrong.stderr


def test_an_ended_cluster_still_tells(fleet: Fleet) -> None:
    """Until a new one has its name; who follows is told the end."""
    kept_before = fleet.events()
    done = fleet.house.tarn("down", "-c", NAME)
    assert done.returncode == 0, done.stderr
    told: subprocess.CompletedProcess[str] = fleet.house.tarn("events", "-c", NAME, "-o", "json")
    assert told.returncode == 0, told.stderr
    events = json.loads(told.stdout)
    assert {event["id"] for event in events} > {event["id"] for event in kept_before}
    assert by_code(events, "TARN-1203")
    assert "these events are from" in told.stderr
    assert not list(Path(fleet.directory).glob("api_token"))
