"""A process with a JVM in it: it starts once, stays small, hears signals, and leaves at once."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tarn.config import environ
from tarn_plugins.cli.sandbox.sandbox import Sandbox

pytestmark = pytest.mark.yarn

HEADER = """
import json, sys, threading, time
from tarn.config import environ
from tarn.errors import TarnError
from tarn.java import describe, hadoop_classpath, java_home, leave, load, start, throwable
classpath = hadoop_classpath(environ())
start(classpath, 64, java_home(environ()))
def tell(**said): print(json.dumps(said), flush=True)
"""


def run(hadoop: Mapping[str, str], body: str, **more: str) -> tuple[dict[str, Any], str, float]:
    """Run *body* after HEADER, and leave: what it told, its standard error, the time to leave."""
    done = subprocess.run(
        [sys.executable, "-c", HEADER + body + "\ntell(at=time.time(), **answer)\nleave(0)\n"],
        env={**environ(), **hadoop, **more},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    left_s = time.time()
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout.splitlines()[-1])
    return answer, done.stderr, left_s - answer.pop("at")


def test_it_leaves_at_once_whatever_java_does(hadoop: Sandbox) -> None:
    """Neither a Java thread that is not a daemon nor a Python thread inside Java keeps it."""
    body = """
threads = load("java.lang.Thread")
timer = load("java.util.Timer")("stays", False)
timer.schedule  # a thread that is not a daemon runs from here on
threading.Thread(target=lambda: threads.sleep(60_000), daemon=True).start()
threading.Event().wait(0.2)
names = [str(each.getName()) for each in threads.getAllStackTraces().keySet()]
answer = {"stays": "stays" in names, "numpy": "numpy" in sys.modules}
"""
    answer, _, took_s = run(hadoop.environ, body)
    assert answer == {"stays": True, "numpy": False}
    assert took_s < 3


def test_a_second_start_is_the_same_one_or_an_error(hadoop: Sandbox) -> None:
    """A process has one JVM, with one set of jars."""
    body = """
start(classpath, 64, java_home(environ()))
try:
    start(classpath, 65, java_home(environ()))
except TarnError as error:
    answer = {"code": error.code, "text": str(error)}
try:
    load("org.apache.hadoop.Nope")
except TarnError as error:
    answer |= {"missing": str(error)}
"""
    answer, _, _ = run(hadoop.environ, body)
    assert answer["code"] == "TARN-3123"
    assert "has a JVM already" in answer["text"]
    assert "no jar on the classpath has the class org.apache.hadoop.Nope" in answer["missing"]


def test_javas_exceptions_come_in_words_and_without_secrets(hadoop: Sandbox) -> None:
    """From real Throwables, with their causes."""
    body = """
io, illegal = load("java.io.IOException"), load("java.lang.IllegalStateException")
try:
    raise io("GET http://nn/x?delegation=HAAEcm9vdA&op=OPEN", illegal("the root\\n\\tat a.b"))
except throwable() as error:
    fault = describe(error)
answer = {"text": str(fault), "known": fault.is_a("java.lang.RuntimeException")}
"""
    answer, _, _ = run(hadoop.environ, body)
    assert answer == {
        "text": "IOException: GET http://nn/x?delegation=***&op=OPEN (cause: the root)",
        "known": True,
    }


def test_leaving_in_the_middle_of_calls_is_clean(hadoop: Sandbox) -> None:
    """Threads that go in and out of Java do not make the end an abort."""
    body = """
system = load("java.lang.System")
def busy():
    while True:
        system.nanoTime()
for _ in range(4):
    threading.Thread(target=busy, daemon=True).start()
threading.Event().wait(0.2)
tell(at=time.time(), left=True)
sys.stdout.write("")
leave(0)
"""
    answer, stderr, took_s = run(hadoop.environ, body)
    assert answer == {"left": True}
    assert stderr == ""
    assert took_s < 3


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_signals_are_pythons(hadoop: Sandbox, number: signal.Signals) -> None:
    """A master is told to leave by a signal; Java would end it on the spot."""
    body = f"""
import os, signal
heard = threading.Event()
signal.signal({number.value}, lambda *_: heard.set())
os.kill(os.getpid(), {number.value})
answer = {{"heard": heard.wait(5)}}
"""
    answer, _, _ = run(hadoop.environ, body)
    assert answer == {"heard": True}


def test_a_jvm_with_hdfs_takes_less_than_110_mib(hadoop: Sandbox) -> None:
    """Python, the JVM and a file system: what is left of 220 MiB is the master's."""
    body = """
files = load("org.apache.hadoop.fs.FileSystem").get(load("org.apache.hadoop.conf.Configuration")())
files.listStatus(load("org.apache.hadoop.fs.Path")("/"))
pages = int(open("/proc/self/statm").read().split()[1])
answer = {"mib": pages * 4096 >> 20}
"""
    answer, _, _ = run(hadoop.environ, body, MALLOC_ARENA_MAX="2")
    assert os.sysconf("SC_PAGE_SIZE") == 4096
    assert answer["mib"] < 110


def test_a_jvm_leaves_no_file_behind(hadoop: Sandbox) -> None:
    """`leave` skips Java's own exit, as SIGKILL does: nothing may wait in /tmp for either."""
    body = """
from pathlib import Path
load("org.apache.hadoop.fs.FileSystem").get(load("org.apache.hadoop.conf.Configuration")())
tell(at=time.time(), pid=os.getpid())
leave(0)
"""
    before = temporary_files()
    answer, _, _ = run(hadoop.environ, "import os\n" + body)
    # others of this machine make files of their own meanwhile
    left = {name for name in temporary_files() - before if str(answer["pid"]) in name}
    assert left == set()


def temporary_files() -> set[str]:
    """Return what lies in the directory that Java takes for temporary files."""
    return {str(path) for path in Path("/tmp").glob("*")} | {
        str(path) for path in Path("/tmp").glob("hsperfdata_*/*")
    }
