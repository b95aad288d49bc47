"""Which processes of Python models ended by themselves: what is told, and what never is."""

import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from local_runtime import eventually

from tarn.triton.exits import stubs_ended
from tarn.triton.stubs import ChildProcess, ChildProcesses, StubHistory

STUB = "/backends/python/triton_python_backend_stub"


def stub(pid: int, name: str = "m_0_0", model: str = "m", version: int = 1) -> ChildProcess:
    """Return a living stub, with the command line that Triton 2.51 gives it."""
    argv = (STUB, f"/models/{model}/{version}/model.py", "tarn_0_", "1048576", "1048576", "9")
    return ChildProcess(pid, pid, (*argv, "/backends/python", "336", name, "DEFAULT"))


def dead(child: ChildProcess, code: int = -9) -> ChildProcess:
    return child._replace(argv=(), code=code)


def looks(*steps: list[ChildProcess]) -> list[str]:
    """Return what each look tells."""
    stubs = StubHistory()
    told = [stubs.seen(children, float(at)) for at, children in enumerate(steps)]
    return [stubs_ended(ends) for ends in told]


def test_one_that_died_is_told_at_the_second_look_and_from_then_on() -> None:
    """With its model, its pid and how it ended."""
    one, other = stub(1), stub(2, "m_0_1")
    said = looks([one, other], [dead(one), other], [dead(one), other], [dead(one), other])
    died = (
        "process m_0_0 (pid 1) of the Python model 'm' was killed by signal 9 (SIGKILL): "
        "probably out of memory"
    )
    assert said == ["", "", died, died]


@pytest.mark.parametrize(
    ("code", "how"),
    [
        (0, "exited with code 0"),
        (3, "exited with code 3"),
        (-11, "was killed by signal 11 (SIGSEGV)"),
    ],
)
def test_how_it_ended_is_said(code: int, how: str) -> None:
    """Also one that left with 0: nobody asked it to."""
    one = stub(1)
    assert looks([one], [dead(one, code)], [dead(one, code)])[2].endswith(f"'m' {how}")


def test_one_that_triton_waits_for_is_not_told() -> None:
    """Unloaded or loaded again: it may be seen as a zombie once, and then it is gone."""
    one, new = stub(1), stub(2)
    assert looks([one], [dead(one, 0)], [new], [new]) == [""] * 4
    assert looks([one], [one], [], []) == [""] * 4


def test_a_start_to_do_the_same_work_ends_the_word() -> None:
    """Triton never waits for the dead one, also after the model was loaded again."""
    one, other, new = stub(1), stub(2, "m_0_1"), stub(3, version=2)
    said = looks([one, other], [dead(one)], [dead(one)], [dead(one), new], [dead(one), dead(new)])
    assert [bool(told) for told in said] == [False, False, True, False, True]


def test_others_of_the_model_do_not_end_the_word() -> None:
    """One that was there before, one for another instance of it, and one that asks for settings."""
    one, other = stub(1), stub(2, "m_0_1")
    for beside in (other, stub(3, "m_0_1"), stub(3, "m"), stub(3, "m_0_0", "other")):
        assert looks([one, other], [dead(one), other], [dead(one), beside])[2]


def test_one_that_asked_for_the_settings_is_back_with_any_of_its_model() -> None:
    """Triton starts it under the model's own name, before those that serve."""
    one = stub(1, "m")
    said = looks([one], [dead(one, 8)], [dead(one, 8)], [dead(one, 8), stub(2, "m_0_0")])
    assert [bool(told) for told in said] == [False, False, True, False]
    assert said[2].startswith("process m (pid 1) of the Python model 'm' exited with code 8")


def test_what_had_ended_before_the_first_look_is_not_told() -> None:
    """Nobody knows what it was, nor whether it was started again."""
    assert looks([dead(stub(1))], [dead(stub(1))], [dead(stub(1))]) == ["", "", ""]


def test_other_children_of_triton_are_not_told() -> None:
    """Shells that try whether a stub can be run, and Triton's own copy before its exec."""
    shell = ChildProcess(1, 1, ("sh", "-c", f"{STUB}> /dev/null 2>&1"))
    tried, triton = ChildProcess(2, 2, (STUB,)), ChildProcess(3, 3, ("/bin/tritonserver", "--id=a"))
    gone = [dead(child, 1) for child in (shell, tried, triton)]
    assert looks([shell, tried, triton], gone, gone) == ["", "", ""]


def test_a_shell_that_becomes_a_stub_is_one() -> None:
    """The same process, by another command line."""
    one = stub(1)
    shell = one._replace(argv=("bash", "-c", f" exec {STUB} …"))
    assert looks([shell], [one], [dead(one)], [dead(one)])[3]


def test_an_older_triton_gives_no_name() -> None:
    """The model is known from the path of its file."""
    one = stub(1)._replace(argv=stub(1).argv[:3])
    said = looks([one], [dead(one, 1)], [dead(one, 1)])
    assert said[2] == "process (pid 1) of the Python model 'm' exited with code 1"


def test_many_are_told_in_one_line() -> None:
    """A few by name, and how many more."""
    all_of_them = [stub(n, f"m_0_{n}") for n in range(1, 8)]
    gone = [dead(one) for one in all_of_them]
    said = looks(all_of_them, gone, gone)[2]
    assert said.count("process m_0_") == 4
    assert said.endswith("; and 3 more")


def test_each_end_has_its_time() -> None:
    """As the wall clock had it at the look that saw it first."""
    stubs, one, other = StubHistory(), stub(1), stub(2, "m_0_1")
    for at, seen in enumerate(([one, other], [dead(one), other], [dead(one), dead(other)])):
        stubs.seen(seen, float(at))
    assert [end.at for end in stubs.seen([dead(one), dead(other)], 3.0)] == [1.0, 2.0]


@pytest.fixture
def process(tmp_path: Path) -> Iterator["subprocess.Popen[bytes]"]:
    """Run a program that is called as a stub is."""
    program = tmp_path / Path(STUB).name
    program.symlink_to(shutil.which("sh") or "/bin/sh")
    (tmp_path / "m" / "1").mkdir(parents=True)
    model = tmp_path / "m" / "1" / "model.py"
    model.write_text("kill -STOP $$\n")
    one = subprocess.Popen([program, model, *("?" * 6), "m_0_0"])
    yield one
    one.kill()
    one.wait()


def test_children_are_found_with_how_they_ended(process: "subprocess.Popen[bytes]") -> None:
    """Also those that nobody has waited for; not those of others."""
    us, children = os.getpid(), ChildProcesses()

    def one() -> ChildProcess | None:
        found = children.look({us})[us]
        return next((child for child in found if child.pid == process.pid), None)

    found = eventually(lambda: (child := one()) and len(child.argv) > 1 and child)
    assert isinstance(found, ChildProcess)
    assert (found.code, Path(found.argv[1]).name, found.argv[-1]) == (None, "model.py", "m_0_0")
    assert all(c.pid != process.pid for c in children.look({os.getppid()})[os.getppid()])
    assert one() == found
    process.kill()
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    assert one() == ChildProcess(process.pid, found.start, code=-signal.SIGKILL)
    process.wait()
    assert one() is None
