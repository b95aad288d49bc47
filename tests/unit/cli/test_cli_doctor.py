"""`tarn doctor`."""

import json
from collections.abc import Callable, Mapping

import attrs
import pytest

from tarn.cli import run
from tarn.cluster import ClusterEnvironment
from tarn.errors import PluginError
from tarn.hookspecs import FileCheck, hookimpl
from tarn.interfaces import Finding
from tarn.plugins import load


class Nginx:
    """A stranger's plugin that knows one more kind of file."""

    @hookimpl
    def tarn_doctor_files(self) -> Mapping[str, FileCheck]:
        return {"nginx": FileCheck(self.check, "a configuration of nginx")}

    @staticmethod
    def check(name: str, data: bytes):
        for number, line in enumerate(data.splitlines(), 1):
            if b"root" in line:
                yield Finding("TARN-9001", f"{name}:{number}", "it runs as root", "Name a user.")
            if b"todo" in line:
                yield Finding("TARN-9002", f"{name}:{number}", "a todo.", "Do it.", fatal=False)


AROUND = ClusterEnvironment({}, lambda: load([Nginx()], points=()))


@attrs.frozen
class Done:
    code: int
    stdout: str
    stderr: str


@pytest.fixture
def doctor(capsys: pytest.CaptureFixture[str]) -> Callable[..., Done]:
    def ask(*arguments: str) -> Done:
        return Done(run(["doctor", *arguments], AROUND), *capsys.readouterr())

    return ask


def test_a_plugin_s_kind_of_file_is_an_option_of_the_doctor(doctor, tmp_path):
    """Findings with their lines; one that is fatal makes the exit code 1."""
    (tmp_path / "a").write_text("todo\nuser root;\n")
    done = doctor("--nginx", str(tmp_path / "a"))
    assert done.code == 1
    assert done.stdout.splitlines() == [
        f"{tmp_path}/a:1: warning TARN-9002: a todo. Do it.",
        f"{tmp_path}/a:2: error TARN-9001: it runs as root. Name a user.",
    ]
    assert done.stderr.splitlines()[-1] == "1 check: 1 error"


def test_warnings_alone_let_it_pass(doctor, tmp_path):
    """Also in JSON, and for several files."""
    (tmp_path / "a").write_text("todo")
    (tmp_path / "b").write_text("")
    done = doctor("--nginx", str(tmp_path / "a"), "--nginx", str(tmp_path / "b"), "-o", "json")
    assert done.code == 0
    first, second = json.loads(done.stdout)
    assert (second["check"], second["state"]) == (f"nginx {tmp_path}/b", "ok")
    assert first["state"] == "warning"
    assert first["findings"] == [
        {
            "code": "TARN-9002",
            "level": "warning",
            "where": f"{tmp_path}/a:1",
            "found": "a todo.",
            "next_step": "Do it.",
        }
    ]


def test_a_file_without_a_fault_is_said_to_be_good(doctor, tmp_path):
    """Nothing on standard output, exit code 0."""
    (tmp_path / "a").write_text("")
    done = doctor("--nginx", str(tmp_path / "a"))
    assert (done.code, done.stdout) == (0, "")
    assert done.stderr.splitlines()[-1] == "1 check: 1 ok"


@pytest.mark.parametrize("name", ["nowhere", "."])
def test_a_file_that_cannot_be_read_is_named(doctor, name, tmp_path):
    """No traceback."""
    done = doctor("--nginx", str(tmp_path / name))
    assert str(tmp_path) in done.stderr
    assert "Traceback" not in done.stderr
    assert done.code == 3


def test_without_a_file_and_a_spec_the_usage_is_shown(doctor, tmp_path, monkeypatch):
    """Exit code 2 of click, and what could be asked."""
    monkeypatch.chdir(tmp_path)
    done = doctor()
    assert done.code == 2
    assert "Usage" in done.stderr


def test_two_plugins_cannot_know_one_kind():
    """The second one is named."""

    class Other(Nginx):
        pass

    with pytest.raises(PluginError, match="nginx"):
        load([Nginx(), Other()], points=()).doctor_files()
