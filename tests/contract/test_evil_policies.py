"""A policy that misbehaves in a real master, over a fake Triton."""

import json
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from contract import evil
from contract.fake_binary import fake_models, fake_triton
from house import House, clear, until

NO_ANSWER = "the scaling policy has no answer"


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    one = House(tmp_path)
    one.environ["PYTHONPATH"] = str(evil.install(tmp_path / "site"))
    yield one
    clear(one)


def begin(house: House, manner: str) -> Path:
    """Start a fleet of one under a policy of this manner; return the file that cures it."""
    cure = house.root / "cure"
    path = house.spec(
        "w",
        models={"repository": fake_models(house.root).repository},
        triton={"binary": fake_triton(house.root).binary},
        replicas={"min": 1, "max": 3},
        scaling={"use": "evil", "options": {"manner": manner, "until": str(cure)}},
    )
    started = house.tarn("up", "-f", path)
    assert started.returncode == 0, started.stderr
    return cure


def health(house: House) -> str:
    with urllib.request.urlopen(f"{house.ref('w')['url']}/health", timeout=5) as answer:
        text: str = answer.read().decode()
    return text


def warned(house: House) -> str:
    found = [w for w in house.status("w")["warnings"] if w.startswith(NO_ANSWER)]
    return found[0] if found else ""


@pytest.mark.parametrize(
    ("manner", "said"),
    [
        ("raises", "the policy raised RuntimeError: division by cucumber"),
        ("many", "the policy answered str, not a Wish"),
    ],
)
def test_a_policy_that_raises_or_babbles_keeps_the_size_and_everybody_is_told(
    house: House, manner: str, said: str
) -> None:
    """`tarn status` warns with its words, `/health` names the fault, an event has the code."""
    cure = begin(house, manner)
    assert said in until(lambda: warned(house), 20, "the warning")
    assert house.status("w")["desired"] == 1
    assert f"! TARN-1012 {NO_ANSWER}" in house.tarn("status", "-c", "w").stdout
    lines = health(house).splitlines()
    assert lines[0] == "OK"
    assert f"{NO_ANSWER}" in "\n".join(lines[1:])
    events = json.loads(house.tarn("events", "-c", "w", "-o", "json").stdout)
    assert [e["count"] for e in events if e["code"] == "TARN-1012"] == [1]
    cure.touch()
    until(lambda: house.status("w")["desired"] == 2, 20, "the wish of a policy that came round")
    assert warned(house) == ""


def test_a_policy_that_hangs_is_left_alone_until_resume(house: House) -> None:
    """Its own recovery helps nobody: the thread is lost. `tarn resume` asks on a new one."""
    cure = begin(house, "hangs")
    assert "`tarn resume` retries" in until(lambda: warned(house), 30, "the warning")
    assert NO_ANSWER in health(house)
    cure.touch()
    assert house.status("w")["desired"] == 1
    assert house.tarn("resume", "-c", "w").returncode == 0
    until(lambda: house.status("w")["desired"] == 2, 20, "the wish of a policy that was revived")
    assert warned(house) == ""
