"""``/api/v1/logs``: who may, what is shown, and what happens when who keeps a log hangs."""

import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest
from fake_master import TOKEN, FakeMaster, PolicyAuthorizer, instance, snapshot

from tarn.errors import NotFoundError, ProviderError
from tarn.http.blocking_pool import DirectAuthorizer, LogReader
from tarn.http.visibility import MASK
from tarn.interfaces import LogTail

WHOLE = tuple(f"line {number}" for number in range(1, 301))
AUTH = {"Authorization": f"Bearer {TOKEN.decode()}"}


def tail(instance_id: str, lines: int) -> LogTail:
    if instance_id != "llama-0001":
        raise NotFoundError(f"there is no log of '{instance_id}'")
    return LogTail(WHOLE[-lines:], truncated=lines < len(WHOLE))


@contextmanager
def asking(
    of_instance: Callable[[str, int], LogTail], deadline_s: float = 5.0, **more: object
) -> Iterator[httpx.Client]:
    desk = LogReader(of_instance, lambda lines: LogTail(("the master's",)), deadline_s=deadline_s)
    with FakeMaster(logs=desk, **more) as master:
        with httpx.Client(base_url=master.url, trust_env=False, headers=AUTH) as web:
            yield web
    desk.close()


def test_the_end_of_a_log_is_answered() -> None:
    """200 lines unless a number is asked for; without an instance it is the master's."""
    with asking(tail) as web:
        usual = web.get("/api/v1/logs", params={"instance": "llama-0001"}).json()
        assert usual == {
            "instance": "llama-0001",
            "lines": list(WHOLE[-200:]),
            "truncated": True,
        }
        two = web.get("/api/v1/logs", params={"instance": "llama-0001", "lines": 2}).json()
        assert two["lines"] == ["line 299", "line 300"]
        own = web.get("/api/v1/logs").json()
        assert own == {"instance": "", "lines": ["the master's"], "truncated": False}


@pytest.mark.parametrize(
    "odd", ["0", "-1", "2001", "x", "1.5", "9" * 40, "٣", "0" * 8 + "1" * 5000]
)
def test_an_odd_number_of_lines_is_refused(odd: str) -> None:
    """In words that say which numbers there are."""
    with asking(tail) as web:
        answer = web.get("/api/v1/logs", params={"instance": "llama-0001", "lines": odd})
        assert answer.status_code == 400
        assert answer.json()["error"]["code"] == "TARN-3810"
        assert "1 to 2000" in answer.json()["error"]["right"]


def test_an_id_longer_than_any_is_refused() -> None:
    """No file system takes such a name; the answer says what is right."""
    with asking(tail) as web:
        answer = web.get("/api/v1/logs", params={"instance": "a" * 5000})
        assert answer.status_code == 400
        assert answer.json()["error"]["found"] == "instance has 5000 characters"


def test_a_log_that_is_not_there_is_404() -> None:
    """Also for ids that are paths, and where nobody keeps logs at all."""
    with asking(tail) as web:
        for odd in ("llama-0002", "../spec.yaml", "/etc/passwd", "\0"):
            assert web.get("/api/v1/logs", params={"instance": odd}).status_code == 404
    with FakeMaster() as master, httpx.Client(base_url=master.url, headers=AUTH) as web:
        assert web.get("/api/v1/logs").status_code == 404


def test_only_who_administers_reads_logs() -> None:
    """To view is not enough; what stands in a log may be about anybody's requests."""
    for rights, status in (({"view"}, 403), ({"view", "admin"}, 200)):
        authorizer = PolicyAuthorizer(rights={("anonymous", right, "") for right in rights})
        with asking(tail, api_token=None, gate=DirectAuthorizer(authorizer)) as web:
            asked = web.get("/api/v1/logs", params={"instance": "llama-0001"})
            assert asked.status_code == status
    with asking(tail) as web:
        bare = web.get("/api/v1/logs", headers={"Authorization": ""})
        assert bare.status_code == 401


def test_secrets_and_hidden_models_are_masked() -> None:
    """Whoever administers need not be somebody who may list every model."""
    said = (
        "Loading model payroll from s3://user:hunter2@store/m",
        "http_restricted_api=logging:key=hunter2",
        "token=hunter2 was sent for ocr",
    )
    rights = {("anonymous", action, "ocr") for action in ("list", "metadata")}
    rights.add(("anonymous", "admin", ""))
    picture = snapshot(instance(1, models=(("payroll", "READY", ""), ("ocr", "READY", ""))))
    desk = LogReader(lambda _id, _lines: LogTail(said))
    gate = DirectAuthorizer(PolicyAuthorizer(rights=rights))
    with (
        FakeMaster(picture, logs=desk, api_token=None, gate=gate) as master,
        httpx.Client(base_url=master.url, trust_env=False) as web,
    ):
        answer = web.get("/api/v1/logs", params={"instance": "llama-0001"})
    desk.close()
    assert "payroll" not in answer.text
    assert "hunter2" not in answer.text
    assert answer.json()["lines"][0] == f"Loading model {MASK} from s3://{MASK}@store/m"
    assert "ocr" in answer.json()["lines"][2]


def test_a_keeper_that_hangs_delays_nobody_else() -> None:
    """The question ends in words by its deadline; meanwhile every other page is quick."""
    never = threading.Event()

    def hang(_id: str, _lines: int) -> LogTail:
        never.wait(20.0)
        return LogTail(())

    with asking(hang, deadline_s=2.0) as web:
        answers: list[httpx.Response] = []
        params = {"instance": "llama-0001"}
        slow = threading.Thread(
            target=lambda: answers.append(web.get("/api/v1/logs", params=params))
        )
        slow.start()
        others = [web.get("/instances").status_code for _ in range(10)]
        assert slow.is_alive(), "ten other answers came first"
        slow.join(20.0)
        never.set()
    assert others == [200] * 10
    (answer,) = answers
    assert answer.status_code == 503
    assert "did not answer within 2 s" in answer.json()["error"]["found"]


def test_a_node_that_refuses_is_told() -> None:
    """503 with the node's own words, and with what shows the log nevertheless."""

    def refuse(_id: str, _lines: int) -> LogTail:
        raise ProviderError("yarn", "answers 403", code="TARN-3811", next_step="`tarn logs X`")

    with asking(refuse) as web:
        error = web.get("/api/v1/logs", params={"instance": "llama-0001"}).json()["error"]
    assert (error["code"], error["next_step"]) == ("TARN-3811", "`tarn logs X`")


def test_a_master_reads_its_own_log_where_that_is_a_file(tmp_path: Path) -> None:
    """Its standard error is the file, also when that was rotated; a pipe is no file."""
    program = (
        "import sys; from tarn.http.blocking_pool import own_log\n"
        "print('hello', file=sys.stderr, flush=True)\n"
        "print(own_log(int(sys.argv[1])).lines)"
    )
    (tmp_path / "master.log.1").write_text("before\n")
    environ = {"PYTHONPATH": os.pathsep.join(sys.path)}
    with (tmp_path / "master.log").open("ab") as log:
        done = subprocess.run(
            [sys.executable, "-c", program, "2"],
            stdout=subprocess.PIPE,
            stderr=log,
            env=environ,
            timeout=30,
            check=True,
        )
    assert done.stdout.decode().strip() == "('before', 'hello')"
    piped = subprocess.run(
        [sys.executable, "-c", program, "2"],
        capture_output=True,
        env=environ,
        timeout=30,
        check=False,
    )
    assert b"the master's log is in no file" in piped.stderr
