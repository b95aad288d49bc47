"""The child process: questions, answers, hangs and ends."""

import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from tarn.errors import NotFoundError, ProviderError, TimedOutError
from tarn_plugins.runtime.yarn.client import hadoop_child as module
from tarn_plugins.runtime.yarn.client.hadoop_child import HadoopChild

CHILD = """
import os, sys, threading
from tarn.errors import NotFoundError
from tarn_plugins.runtime.yarn.child.serving import serve
class Answers:
    def answer(self, question, parts):
        print("asked", question, file=sys.stderr, flush=True)
        match question:
            case "begin": return open(parts["begun"], "a").write("begun\\n")
            case "pid": return os.getpid()
            case "echo": return parts
            case "lost": raise NotFoundError("no such thing", where="here")
            case "bug": return 1 / 0
            case "hang": threading.Event().wait(60)
            case "crash": os._exit(7)
serve(0, 1, Answers(), idle_s=float(sys.argv[1]))
os._exit(0)
"""


@pytest.fixture
def hadoop(tmp_path: Path):
    made = make(tmp_path)
    yield made
    made.close()


def make(tmp_path: Path, idle_s: float = 30) -> HadoopChild:
    environ = {"PATH": os.defpath}
    begin = {"begun": str(tmp_path / "begun")}
    return HadoopChild([sys.executable, "-c", CHILD, str(idle_s)], environ, begin)


def test_one_child_answers_many_questions(hadoop: HadoopChild, tmp_path: Path) -> None:
    """One process, begun once."""
    pids = {hadoop.ask("pid", 20) for _ in range(3)}
    assert len(pids) == 1
    assert (tmp_path / "begun").read_text() == "begun\n"


def test_any_text_of_any_length_passes(hadoop: HadoopChild) -> None:
    """Also more than a pipe holds at once."""
    parts = {"a": "été\n\0'\"$" * 100_000}
    assert hadoop.ask("echo", 20, **parts) == parts


def test_errors_are_raised_again(hadoop: HadoopChild) -> None:
    """The class and the parts; a bug in the child tells its kind only."""
    with pytest.raises(NotFoundError) as caught:
        hadoop.ask("lost", 20)
    assert (caught.value.found, caught.value.where) == ("no such thing", "here")
    with pytest.raises(ProviderError, match="ZeroDivisionError"):
        hadoop.ask("bug", 20)
    assert hadoop.ask("pid", 20)


def test_a_hanging_question_ends_at_its_deadline_with_words(hadoop: HadoopChild) -> None:
    """The child is killed, Hadoop's last words are quoted, and the next question works."""
    first = hadoop.ask("pid", 20)
    begun_s = time.monotonic()
    with pytest.raises(TimedOutError) as caught:
        hadoop.ask("hang", 0.5)
    assert time.monotonic() - begun_s < 10
    assert "asked hang" in caught.value.found
    assert caught.value.next_step
    assert hadoop.ask("pid", 20) != first
    assert not Path(f"/proc/{first}").exists()


def test_a_child_that_was_idle_is_started_again(tmp_path: Path) -> None:
    """Nobody notices that it had left."""
    hadoop = make(tmp_path, idle_s=0.2)
    first = hadoop.ask("pid", 20)
    deadline_s = time.monotonic() + 10
    while (
        "Z" not in Path(f"/proc/{first}/stat").read_text().split() and time.monotonic() < deadline_s
    ):
        pass
    assert hadoop.ask("pid", 20) != first
    hadoop.close()


def test_a_question_that_ended_the_child_is_not_asked_again(
    hadoop: HadoopChild, tmp_path: Path
) -> None:
    """It may have done its work: a submission is never sent twice."""
    hadoop.ask("pid", 20)
    with pytest.raises(ProviderError, match="code 7"):
        hadoop.ask("crash", 20)
    assert (tmp_path / "begun").read_text() == "begun\n"


def test_descriptors_may_have_any_number(hadoop: HadoopChild) -> None:
    """A notebook with many connections passes 1023, where `select` ends."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < 1100:
        pytest.skip(f"only {hard} descriptors are allowed here")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, 1100), hard))
    taken = [os.open(os.devnull, os.O_RDONLY)]
    try:
        while taken[-1] < 1024:
            taken.append(os.open(os.devnull, os.O_RDONLY))
        assert hadoop.ask("echo", 20, a="x" * 200_000) == {"a": "x" * 200_000}
    finally:
        for descriptor in taken:
            os.close(descriptor)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_a_forked_process_has_a_child_of_its_own(hadoop: HadoopChild) -> None:
    """Though the lock was held, and the parent's child goes on."""
    first = hadoop.ask("pid", 20)
    ours, theirs = os.pipe()
    with hadoop._lock:
        forked = os.fork()
        if not forked:
            answer = "failed"
            try:
                answer = str(hadoop.ask("pid", 20))
                hadoop.close()
            finally:
                os.write(theirs, answer.encode())
                os._exit(0)
    os.waitpid(forked, 0)
    second = int(os.read(ours, 100))
    os.close(ours)
    os.close(theirs)
    assert second != first
    assert hadoop.ask("pid", 20) == first


def test_closing_ends_it_and_twice_is_once(hadoop: HadoopChild) -> None:
    """No process stays behind."""
    pid = hadoop.ask("pid", 20)
    hadoop.close()
    hadoop.close()
    assert not Path(f"/proc/{pid}").exists()


class Unkillable:
    """A process that hangs in the kernel."""

    stdin = stdout = None

    def __init__(self) -> None:
        self.killed = False

    def wait(self, timeout: float) -> int:
        raise subprocess.TimeoutExpired("java", timeout)

    def kill(self) -> None:
        self.killed = True


def test_a_child_that_does_not_die_of_a_kill_is_left_behind() -> None:
    """Whoever let go of it goes on."""
    process = Unkillable()
    with tempfile.TemporaryFile() as log:
        module._end(process, log, os.getpid())
    assert process.killed
