"""What starts tritonserver on a node: it finds it, says what is wrong in a line, and vanishes."""

import json
import os
import secrets
import signal
import subprocess
import sys
from pathlib import Path

from house import until

from tarn.triton import start, stubs
from tarn.triton.binary import TritonProgram, environment
from tarn.triton.control import stubs_ended
from tarn.triton.regions import IN_STUBS, prefix_in, private


def run(path: Path, *arguments: str, **environ: str) -> subprocess.CompletedProcess[str]:
    program = [sys.executable, "-m", "tarn.triton.start", *arguments]
    return subprocess.run(
        program, env={"PATH": str(path), **environ}, capture_output=True, text=True,
        timeout=60, check=False,
    )  # fmt: skip


def server(folder: Path, text: str) -> Path:
    folder.mkdir()
    (folder / "tritonserver").write_text(text)
    (folder / "tritonserver").chmod(0o700)
    return folder


def test_becomes_the_tritonserver_of_the_path(tmp_path):
    """With the arguments and the environment that it was given."""
    path = server(tmp_path / "bin", '#!/bin/sh\necho "$0|$1|$2|$A"\n')
    done = run(path, "--id=x y", "$HOME", A="b c")
    assert done.stdout == f"{path}/tritonserver|--id=x y|$HOME|b c\n"


def test_becomes_the_program_that_is_named(tmp_path):
    """``triton.binary``: it comes before what is on PATH, and is no argument of Triton's."""
    named = server(tmp_path / "named", '#!/bin/sh\necho "named|$*"\n') / "tritonserver"
    path = server(tmp_path / "bin", "#!/bin/sh\necho wrong\n")
    assert run(path, f"--tritonserver={named}", "--id=1").stdout == "named|--id=1\n"


def test_no_shared_memory_is_left_when_it_is_killed(tmp_path):
    """Its own regions go with it, whoever killed it; those of others stay."""
    prefix = f"tarn_{secrets.token_hex(4)}_gone-0001_"
    regions = [Path("/dev/shm") / f"{prefix}{name}" for name in ("a", "b")]
    other = Path("/dev/shm") / f"{prefix[:-2]}2_c"
    path = server(tmp_path / "bin", "#!/bin/sh\necho up\nexec /bin/sleep 60\n")
    program = [sys.executable, "-m", "tarn.triton.start"]
    program.append(f"--backend-config=python,shm-region-prefix-name={prefix}")
    running = subprocess.Popen(program, env={"PATH": str(path)}, stdout=subprocess.PIPE, text=True)
    try:
        assert running.stdout is not None
        assert running.stdout.readline() == "up\n"
        for region in (*regions, other):
            region.touch()
        running.kill()
        running.wait(10)
        until(lambda: not any(region.exists() for region in regions), 10, "the regions' end")
        assert other.exists()
    finally:
        running.kill()
        running.stdout.close()
        other.unlink(missing_ok=True)


ASKS = """
import os
made = os.open("region", os.O_CREAT | os.O_RDWR, 0o644)
for mode in (0o644, 0o755):
    os.fchmod(made, mode)
    print(f"{os.fstat(made).st_mode & 0o777:o}")
os.chmod("region", 0o644)
print(f"{os.fstat(made).st_mode & 0o777:o}", os.environ["TARN_UMASK"])
"""


def test_what_the_back_end_opens_to_all_stays_closed(tmp_path):
    """That one call does nothing; others, and other modes, work as ever."""
    command = private([sys.executable, "-c", ASKS])
    done = subprocess.run(
        command, cwd=tmp_path, capture_output=True, text=True, check=True, umask=0o027
    )
    assert done.stdout.split() == ["600", "755", "644", "027"]


def test_a_command_that_is_not_there_is_told_in_one_line():
    """In the log where Triton's own last words would be."""
    done = subprocess.run(private(["/nowhere"]), capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == "error: /nowhere cannot be started: No such file or directory\n"


def test_a_stub_closes_its_region_and_gets_the_users_umask_back(tmp_path):
    """Where the kernel takes no filter it is closed before the model is loaded."""
    region = Path("/dev/shm") / f"tarn_{secrets.token_hex(4)}_stub-0001_a"
    script = tmp_path / "stub.py"
    script.write_text(f"{IN_STUBS}\nprint(_os.umask(0), 'TARN_UMASK' in _os.environ)\n")
    try:
        region.touch(0o644)
        done = subprocess.run(
            [sys.executable, script, region.name, "1048576"], env={"TARN_UMASK": "027"},
            capture_output=True, text=True, check=True,
        )  # fmt: skip
        assert region.stat().st_mode & 0o777 == 0o600
        assert done.stdout == f"{0o027} False\n"
    finally:
        region.unlink(missing_ok=True)


def test_only_names_of_ours_are_cleared_away():
    """A prefix that a person chose may be another program's."""
    ours = "--backend-config=python,shm-region-prefix-name="
    assert prefix_in([f"{ours}tarn_0a1b2c3d_x-0001_", "--id=1"]) == "tarn_0a1b2c3d_x-0001_"
    for theirs in ("", "psm_", "tarn_0a1b2c3d_x/../y_", "tarn_0a1b2c3d_x"):
        assert prefix_in([f"{ours}{theirs}"]) is None


def test_what_cannot_be_started_is_one_line(tmp_path):
    """Like Triton's own last word, so that it is found in the diagnostics."""
    path = server(tmp_path / "bin", "#!/nowhere/sh\n")
    done = run(path)
    assert (done.returncode, done.stderr.count("\n")) == (1, 1)
    assert done.stderr.startswith(f"error: {path}/tritonserver cannot be started")


def test_nothing_to_start_is_one_line(monkeypatch, capsys):
    """With the command that brings it."""
    monkeypatch.setattr(start.binary, "find_wheel", lambda: None)
    monkeypatch.setattr(start.os, "environ", {"PATH": ""})
    assert start.main([]) == 1
    said = capsys.readouterr().err
    assert said.startswith("error: ")
    assert "pip install" in said


def test_a_directory_of_back_ends_that_was_given_wins():
    """``triton.args`` win over ours, here as everywhere."""
    program = TritonProgram("/t", "/ours")
    assert start.words(program, ["--id=1"]) == ["/t", "--id=1", "--backend-directory=/ours"]
    theirs = ["--backend-directory=/theirs"]
    assert start.words(program, theirs) == ["/t", *theirs]
    assert start.words(TritonProgram("/t"), ["--id=1"]) == ["/t", "--id=1"]


def test_the_cache_is_where_this_user_may_write(tmp_path, monkeypatch):
    """The given one, then the user's, then the container's own directory."""
    monkeypatch.chdir(tmp_path)
    given = {"XDG_CACHE_HOME": str(tmp_path / "given")}
    assert start._cache(given) == tmp_path / "given" / "tarn"
    (tmp_path / "file").write_text("")
    nowhere = {"XDG_CACHE_HOME": str(tmp_path / "file")}
    monkeypatch.setattr(start, "_places", lambda environ: [Path(environ["XDG_CACHE_HOME"], "x")])
    assert start._cache(nowhere) == tmp_path / ".tarn" / "cache"


def test_a_uid_without_a_name_has_no_home(monkeypatch):
    """A container's uid need not be in its image."""

    def unknown(_uid: int) -> None:
        raise KeyError

    monkeypatch.setattr(start.pwd, "getpwuid", unknown)
    assert list(start._places({})) == []


def test_libraries_of_the_wheel_come_first():
    """And the interpreter's folder, so that the stub's `python3` is this one."""
    made = environment(
        TritonProgram("/t", "/b", ("/w", "/p")), {"LD_LIBRARY_PATH": "/x", "PATH": "/y"}
    )
    assert made["LD_LIBRARY_PATH"] == "/w:/p:/x"
    assert made["PATH"] == f"{Path(sys.executable).parent}:/y"
    assert environment(TritonProgram("/t"), {"A": "b"}) == {"A": "b"}


ROUNDS = """#!{python}
import os, subprocess, sys, time
print("up", os.getpid(), *sys.argv[1:], flush=True)
for number in range(20):  # a look may be late: then the next one that dies is seen
    one = subprocess.Popen(["{stub}", "{model}", *"234567", f"m_0_{{number}}"])
    time.sleep(1.2)
    one.kill()
time.sleep(60)
"""


def test_what_watches_the_stubs_shows_one_that_died_and_ends_with_triton(tmp_path):
    """In a folder that Triton lists beside the repository; nothing of the environment is in it."""
    stub = tmp_path / "triton_python_backend_stub"
    stub.symlink_to("/bin/sh")
    model = tmp_path / "m" / "1" / "model.py"
    model.parent.mkdir(parents=True)
    model.write_text("kill -STOP $$\n")
    text = ROUNDS.format(python=sys.executable, stub=stub, model=model)
    path = server(tmp_path / "bin", text)
    board = tmp_path / ".tarn" / "stubs"
    program = [sys.executable, "-m", "tarn.triton.start", "--model-repository=/models"]
    environ = {"PATH": str(path), "SECRET": "canary"}
    running = subprocess.Popen(
        program,
        env=environ,
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        assert running.stdout is not None
        line = f"up {running.pid} --model-repository=/models --model-repository={board}\n"
        assert running.stdout.readline() == line
        (watcher,) = watchers(board)
        assert b"canary" not in Path(f"/proc/{watcher}/environ").read_bytes()
        shown = until(lambda: list(board.iterdir()), 30, "the word of one that died")
        (end, *_) = stubs_ended(json.dumps([{"name": one.name} for one in shown]).encode())
        assert (end.model, end.name[:4], end.code) == ("m", "m_0_", -9)
        assert board.stat().st_mode & 0o777 == 0o700
        os.kill(running.pid, signal.SIGKILL)
        running.wait(10)
        until(lambda: not watchers(board), 10, "the end of the watcher")
    finally:
        os.killpg(running.pid, signal.SIGKILL)
        running.wait(10)
        running.stdout.close()


def watchers(board):
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            words = (entry / "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if stubs.__file__.encode() in words and str(board).encode() in words:
            found.append(int(entry.name))
    return found


def test_a_triton_without_a_place_for_the_word_serves_as_well(tmp_path):
    """It is told in the log, and nothing else is different."""
    path = server(tmp_path / "bin", '#!/bin/sh\necho "$*"\n')
    (tmp_path / ".tarn").write_text("")
    program = [sys.executable, "-m", "tarn.triton.start", "--model-repository=/models"]
    done = subprocess.run(
        program, env={"PATH": str(path)}, cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.stdout == "--model-repository=/models\n"
    assert done.stderr.startswith("warning: processes of Python models are not watched: ")
