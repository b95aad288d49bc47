"""One event, the same in the API, its stream, the log and its file; and after its master."""

import json
import subprocess
import threading
from collections.abc import Iterator, Mapping
from typing import Any

import attrs
import httpx
import pytest
from canaries import Canaries
from house import House, clear, ids, kill, until

pytestmark = [pytest.mark.triton]

NAME = "teller"
Row = Mapping[str, Any]


class Fleet:
    """A real fleet of two, whose log is JSON, and a `tarn events -f` that follows it."""

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


@attrs.define
class Story:
    """What was seen of one fleet: sized by a person, watched, its master killed, ended."""

    epochs: list[str] = attrs.field(factory=list)
    request: str = ""
    answered: list[Row] = attrs.field(factory=list)
    """What the API said, once the third instance served."""
    printed: list[Row] = attrs.field(factory=list)
    streamed: list[Row] = attrs.field(factory=list)
    logged: list[dict[str, Any]] = attrs.field(factory=list)
    filed: list[Row] = attrs.field(factory=list)
    canaries: Canaries = attrs.field(factory=Canaries)
    chosen: dict[str, subprocess.CompletedProcess[str]] = attrs.field(factory=dict)
    before: list[Row] = attrs.field(factory=list)
    """What the API said before the master was killed, and what the next one says."""
    after: list[Row] = attrs.field(factory=list)
    heard: list[Row] = attrs.field(factory=list)
    """All that `tarn events -f` printed."""
    over: subprocess.CompletedProcess[str] | None = None
    """`tarn events` of the cluster that has ended."""
    newest: list[Row] = attrs.field(factory=list)
    """What the API said last."""


@pytest.fixture(scope="module")
def story(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Story]:
    """Tell it once; each test looks at a part, in any order."""
    house = House(tmp_path_factory.mktemp("house"))
    try:
        fleet = Fleet(house)
        try:
            told = Story()
            sized(fleet, told)
            looked_for_secrets(fleet, told)
            choices(fleet, told)
            outlived(fleet, told)
            ended(fleet, told)
        finally:
            fleet.close()
        yield told
    finally:
        clear(house)


def sized(fleet: Fleet, told: Story) -> None:
    answer = fleet.put("scale", {"replicas": 3})
    assert answer.status_code == 200
    told.request = answer.headers["x-request-id"]
    until(lambda: len(ids(fleet.house.status(NAME))) == 3, 60, "three ready")
    told.epochs.append(fleet.house.ref(NAME)["epoch"])
    told.answered = fleet.events()
    wanted = {event["id"] for event in told.answered}
    until(lambda: {one["id"] for one in fleet.heard} >= wanted, 10, "all were streamed")
    done = fleet.house.tarn("events", "-c", NAME, "-o", "jsonl")
    told.printed = list(map(json.loads, done.stdout.splitlines()))
    told.streamed = list(fleet.heard)
    told.logged, told.filed = fleet.log(), fleet.file()


def looked_for_secrets(fleet: Fleet, told: Story) -> None:
    """Let the api token come where a line is made of it, and look at the log."""
    api_token = fleet.api_token
    told.canaries.add("api token", api_token)
    httpx.get(f"{fleet.url}/metrics?token={api_token}", trust_env=False)
    httpx.get(f"{fleet.url}/{api_token}", headers=fleet.proof(), trust_env=False)
    fleet.put("drain", {"instance": f"no-{api_token}"})
    fleet.put("pause", {"for": "1s", "reason": f"it was {api_token}"})
    until(lambda: by_code(fleet.file(), "TARN-1201"), 10, "a pause that is told")
    told.canaries.look("master.log", (fleet.directory / "logs" / "master.log").read_bytes())


def choices(fleet: Fleet, told: Story) -> None:
    for arguments in ("--subject teller-0001 --since 1h", "--severity alert", "--since yesterday"):
        told.chosen[arguments] = fleet.house.tarn(
            *("events", "-c", NAME, "-o", "jsonl"), *arguments.split()
        )


def outlived(fleet: Fleet, told: Story) -> None:
    """Kill the master, and wait until the next one is heard by who follows."""
    until(lambda: saved_all(fleet), 10, "a saved state with every event")
    told.before, old = fleet.events(), fleet.house.ref(NAME)
    kill(int(old["pid"]))
    until(lambda: fleet.house.ref(NAME)["epoch"] != old["epoch"], 30, "a new master")
    told.epochs.append(fleet.house.ref(NAME)["epoch"])
    told.after = until(lambda: answered(fleet), 30, "its answer")
    newest = told.after[-1]["id"]
    until(lambda: newest in {one["id"] for one in fleet.heard}, 30, "the follower goes on")
    told.heard = list(fleet.heard)


def ended(fleet: Fleet, told: Story) -> None:
    told.newest = fleet.events()
    done = fleet.house.tarn("down", "-c", NAME)
    assert done.returncode == 0, done.stderr
    told.over = fleet.house.tarn("events", "-c", NAME, "-o", "json")


def saved_all(fleet: Fleet) -> bool:
    newest = max(fleet.directory.glob("state-*.json"), key=lambda path: path.stat().st_mtime)
    known = {event["id"] for event in json.loads(newest.read_text())["state"]["events"]}
    return known == {event["id"] for event in fleet.events()}


def answered(fleet: Fleet) -> list[Row]:
    try:
        return fleet.events()
    except httpx.HTTPError:
        return []


def by_code(events: list[Row], code: str) -> list[Row]:
    return [event for event in events if event["code"] == code]


def test_a_persons_request_is_followed_to_its_last_instance(story: Story) -> None:
    """The id that the answer carries leads to the decision, the instance, and the log's lines."""
    events = story.answered
    (asked,) = by_code(events, "TARN-3820")
    address = asked["request"]["address"]
    assert address.startswith("127.")
    who = {"id": story.request, "user": "owner", "via": "token", "address": address}
    assert asked["request"] == who
    (decided,) = by_code(events, "TARN-1200")
    (started,) = [one for one in by_code(events, "TARN-1100") if one["subject"] == f"{NAME}-0003"]
    assert decided["request"] == started["request"] == who
    assert decided["decision"] == started["decision"] == 2
    assert {(event["epoch"], event["cluster"]) for event in events} == {(story.epochs[0], NAME)}
    assert len({event["id"] for event in events}) == len(events)
    said = [line for line in story.logged if line.get("request") == story.request]
    assert {line["logger"] for line in said} >= {"tarn.events", "tarn.http.requests"}
    assert {line.get("instance") for line in said} >= {f"{NAME}-0003"}


def test_an_event_is_the_same_wherever_it_stands(story: Story) -> None:
    """In the API, its stream, `tarn events`, the log and the file: every field of it."""
    assert story.printed == story.answered
    streamed = {one["id"]: one for one in story.streamed}
    logged = {one["event"]["id"]: one["event"] for one in story.logged if "event" in one}
    filed = {one["id"]: one for one in story.filed}
    for event in story.answered:
        name = event["id"]
        assert streamed[name] == logged[name] == filed[name] == event


def test_each_line_of_the_log_says_whose_it_is(story: Story) -> None:
    """Cluster and epoch, and a time in UTC."""
    assert len(story.logged) > 10
    for line in story.logged:
        assert set(line) >= {"at", "level", "logger", "thread", "message", "cluster", "epoch"}
        assert line["cluster"] == NAME
        assert line["at"].endswith("Z")
    epochs = {line["epoch"] for line in story.logged if line["logger"] == "tarn.events"}
    assert epochs == {story.epochs[0]}


def test_no_line_of_the_log_holds_the_api_token(story: Story) -> None:
    """In no form, whatever page, reason or name it stood in."""
    assert story.canaries.leaks == set()
    assert story.canaries.looked > 5000


def test_what_a_killed_master_saw_is_told_by_the_next_one(story: Story) -> None:
    """Events outlive it; who follows hears each once, and goes on with what is new."""
    count = len(story.before)
    assert story.after[:count] == story.before
    assert {event["epoch"] for event in story.after[count:]} == {story.epochs[1]}
    told = [(one["id"], one["count"]) for one in story.heard]
    assert len(told) == len(set(told))


def test_a_choice_of_events(story: Story) -> None:
    """By subject, time and severity; one that nothing fits is empty, one that is none an error."""
    about_one, alerts, wrong = story.chosen.values()
    codes = [json.loads(line)["code"] for line in about_one.stdout.splitlines()]
    assert codes[:3] == ["TARN-1100", "TARN-1101", "TARN-1102"]
    assert (alerts.returncode, alerts.stdout) == (0, "")
    assert wrong.returncode == 2
    assert "'yesterday' is not a moment" in wrong.stderr


def test_an_ended_cluster_still_tells(story: Story) -> None:
    """From the file that its masters wrote; it says so."""
    assert story.over is not None
    assert story.over.returncode == 0, story.over.stderr
    events = json.loads(story.over.stdout)
    assert {event["id"] for event in events} > {event["id"] for event in story.newest}
    assert by_code(events, "TARN-1203")
    assert "these events are from" in story.over.stderr
