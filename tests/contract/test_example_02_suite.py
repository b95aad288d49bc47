"""Example 02 as a plugin's author meets it: built, installed, shown, tested, scaling a fleet."""

import http.client
import json
import re
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from contract.fake_binary import fake_models, fake_triton
from house import House, clear, until
from workshop import EXAMPLE, workshop

BODY = json.dumps(
    {"inputs": [{"name": "IN", "shape": [1], "datatype": "FP32", "data": [1.0]}]}
).encode()
CLIENTS = 6


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> str:
    """An environment with the example in it."""
    return workshop(tmp_path_factory.mktemp("workshop") / "venv")


@pytest.fixture
def house(tmp_path: Path, python: str) -> Iterator[House]:
    one = House(tmp_path, python)
    yield one
    clear(one)


def test_its_options_are_shown_with_units_defaults_and_their_lines(house: House) -> None:
    """What the README shows is what `tarn plugins` prints."""
    done = house.tarn("plugins", "concurrency")
    assert done.returncode == 0, done.stderr
    readme = (EXAMPLE / "README.md").read_text("utf-8")
    shown = re.search(r"\$ tarn plugins concurrency\n(.*?)\n   \$ tarn", readme, re.DOTALL)
    assert shown is not None
    assert [line.strip() for line in shown[1].splitlines()] == [
        line.strip() for line in done.stdout.splitlines()
    ]
    (row,) = json.loads(house.tarn("plugins", "concurrency", "-o", "json").stdout)
    assert [(o["key"], o["default"]) for o in row["options"]] == [
        ("requests_per_instance", 4.0),
        ("window", "5s"),
    ]


def test_its_options_are_in_the_schema(house: House) -> None:
    """An editor completes them once ``use`` says concurrency."""
    schema: dict[str, Any] = json.loads(house.tarn("config", "schema").stdout)
    choice = schema["properties"]["scaling"]["anyOf"][1]
    assert "concurrency" in choice["properties"]["use"]["enum"]
    (rule,) = [r for r in choice["allOf"] if "'concurrency'" in repr(r["if"])]
    options = rule["then"]["properties"]["options"]["properties"]
    assert options["requests_per_instance"]["exclusiveMinimum"] == 0
    assert options["window"]["type"] == "string"
    assert options["window"]["default"] == "5s"
    assert options["window"]["description"].startswith("How far back")


def test_a_slip_in_its_options_is_named_with_what_was_meant(house: House) -> None:
    """The settings class is the validation."""
    path = house.spec("w", scaling={"use": "concurrency", "options": {"windwo": "3s"}})
    done = house.tarn("up", "-f", path)
    assert done.returncode == 2
    assert "scaling.options.windwo" in done.stderr
    assert "Did you mean 'window'?" in done.stderr


def test_its_contract_is_kept_and_takes_four_lines(python: str) -> None:
    """The suite of `tarn.testing` finds nothing, over the installed package."""
    test = EXAMPLE / "tests" / "test_concurrency.py"
    code = test.read_text("utf-8").partition("class ")[2].splitlines()
    assert len([line for line in code if line.strip()]) <= 4
    done = subprocess.run(
        [python, "-P", "-m", "pytest", "-q", "-p", "no:cacheprovider", "-c", "/dev/null",
         "--rootdir", str(test.parent), str(test)],
        check=False, capture_output=True, text=True, timeout=100, cwd=test.parent,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout
    assert re.search(r"\b[89] passed", done.stdout), done.stdout


def test_it_scales_a_fleet_up_with_its_load_and_down_after_it(house: House) -> None:
    """Six requests at once are two instances' worth; none are the least there may be."""
    path = house.spec(
        "w",
        models={"repository": fake_models(house.root).repository},
        triton={"binary": fake_triton(house.root).binary, "env": {"FAKE_TRITON_LATENCY_S": "0.2"}},
        replicas={"min": 1, "max": 4},
        scaling={
            "use": "concurrency",
            "options": {"window": "2s"},
            "down": {"window": "2s"},
            "cooldown": "1s",
        },
        drain={"timeout": "10s", "quiesce": "0s"},
    )
    started = house.tarn("up", "-f", path)
    assert started.returncode == 0, started.stderr
    (instance,) = house.status("w")["instances"]
    address, model = instance["http"], instance["models"][0]["name"]
    over = threading.Event()
    clients = [threading.Thread(target=_ask, args=(address, model, over)) for _ in range(CLIENTS)]
    for client in clients:
        client.start()
    try:
        until(lambda: house.status("w")["desired"] == 2, 30, "the second instance")
    finally:
        over.set()
        for client in clients:
            client.join(20)
    until(lambda: house.status("w")["desired"] == 1, 30, "the end of the second instance")
    events = json.loads(house.tarn("events", "-c", "w", "-o", "json").stdout)
    sizes = [event["message"] for event in events if event["code"] == "TARN-1200"]
    grown = r"1 → 2 by policy concurrency: [4-8]\.\d requests at once, 4 for an instance"
    assert any(re.fullmatch(grown, size) for size in sizes), sizes


def _ask(address: str, model: str, over: threading.Event) -> None:
    host, _, port = address.partition(":")
    connection = http.client.HTTPConnection(host, int(port), timeout=20)
    while not over.is_set():
        connection.request("POST", f"/v2/models/{model}/infer", BODY)
        connection.getresponse().read()
    connection.close()
