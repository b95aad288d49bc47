"""Arguments and environment reach the program byte for byte, whatever shell is the node's sh."""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from tarn.errors import LaunchError
from tarn_plugins.runtime.yarn.launch.launch_file import (
    COMMAND,
    LAUNCH,
    RUN,
    SCRIPT,
    TMP,
    encode,
    problem,
)

SHELLS = {"dash": ("dash",), "bash": ("bash",), "bash as sh": ("bash", "--posix"),
          "busybox": ("busybox", "sh"), "sh": ("sh",)}  # fmt: skip
SAY = (
    "import sys\n"
    "p = '/proc/self/'\n"
    "sys.stdout.buffer.write(open(p + 'cmdline', 'rb').read() + b'\\0' +"
    " open(p + 'environ', 'rb').read())"
)
PROGRAM = (sys.executable, "-I", "-S", "-c", SAY)
NASTY = [
    b"", b" ", b"\n", b"\n\n", b"a\n", b"\\", b"\\\\n", b"\\0101", b"%s%b%%", b"{{PWD}}",
    b"<LOG_DIR>", b"$HOME", b"$(touch p)", b"`touch p`", b'"', b"'", b"-n", b"--", b"-", b"=",
    b"a=b", b"+x", b"*", b"~", b"!!", b"\xff\xfe", b"\x81\x82\x88\xc3", b"\x01\x7f\x1b", b"x",
    "é模型".encode(), b"; rm -rf x #", b"&&|<>", b"\t\r",
]  # fmt: skip
values = st.binary(max_size=40).map(lambda raw: raw.replace(b"\0", b"")) | st.sampled_from(NASTY)
names = st.from_regex(r"[A-Za-z_][A-Za-z0-9_]{0,8}", fullmatch=True).filter(
    lambda name: not problem(name) and not name.startswith(("LD_", "MALLOC_", "GLIBC"))
)


@pytest.fixture(params=sorted(SHELLS))
def shell(request):
    """Every shell that may be a node's; this machine may lack one."""
    found = shutil.which(SHELLS[request.param][0])
    if found is None:
        pytest.skip(f"no {SHELLS[request.param][0]} on this machine: apt-get install it")
    return [found, *SHELLS[request.param][1:]]


def container(folder: Path, launch: bytes) -> Path:
    (folder / ".tarn").mkdir(exist_ok=True)
    (folder / SCRIPT).write_bytes(RUN)
    (folder / LAUNCH).write_bytes(launch)
    return folder


def start(shell, folder, environ=None):
    return subprocess.run(
        [*shell, SCRIPT],
        cwd=folder,
        check=False,
        env={"PATH": "/usr/bin:/bin", **(environ or {})},
        capture_output=True,
        timeout=30,
    )


def heard(shell, folder, argv, environ, inherited=None):
    """Return the arguments behind the program's own, and the environment."""
    done = start(shell, container(folder, encode([*PROGRAM, *argv], environ)), inherited)
    assert done.returncode == 0, done.stderr
    arguments, variables = split(done.stdout, len(PROGRAM) + len(argv))
    return arguments[len(PROGRAM) :], dict(v.split(b"=", 1) for v in variables)


def split(said, count):
    parts = said.split(b"\0")
    assert parts[count] == b"", "the number of arguments differs"
    return parts[:count], [part for part in parts[count + 1 :] if part]


@given(argv=st.lists(values, max_size=6), environ=st.dictionaries(names, values, max_size=6))
@example(argv=NASTY, environ={f"V{at}": value for at, value in enumerate(NASTY)})
@example(argv=[bytes(range(1, 256))], environ={"ALL": bytes(range(1, 256))})
@example(argv=[b"a b"], environ={"IFS": b"1x/", "ENV": b"x", "PS4": b"$(touch p)", "CDPATH": b"/"})
@example(argv=[b"\xe6\xa8"], environ={"LC_ALL": b"C.UTF-8", "LANG": b"xx", "x": b"\xc3"})
@settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_every_byte_arrives(shell, tmp_path, argv, environ):
    """Nothing is expanded, split, joined or lost; and nothing else comes along."""
    node = {} if "LC_ALL" in environ else {"LC_ALL": "C.UTF-8"}
    node |= dict.fromkeys(("_tarn_line", "_tarn_value", "_tarn_tmp"), "the node's own")
    arguments, variables = heard(shell, tmp_path, argv, environ, node)
    assert arguments == argv
    for name, value in environ.items():
        assert variables[name.encode()] == value
    assert variables[b"LC_ALL"] == environ.get("LC_ALL", b"C.UTF-8")
    ours = {b"LC_ALL", b"PATH", b"HOME", b"TMPDIR", b"PWD", b"OLDPWD", b"SHLVL", b"_", b"LC_CTYPE"}
    ours |= {b"USER", b"LOGNAME"}
    assert variables.keys() - {name.encode() for name in environ} <= ours


def test_nothing_is_run_on_the_way(shell, tmp_path):
    """A value that is a command stays a value."""
    heard(shell, tmp_path, [b"$(touch a)", b"`touch b`", b"'; touch c; '"], {"X": b'"; touch d; "'})
    assert sorted(path.name for path in tmp_path.iterdir()) == [".tarn"]


def test_models_are_shown_where_an_image_has_them(shell, tmp_path):
    """By links to what YARN brought, beside what is in the directory; dot files are no models."""
    for name in ("ocr/1/model.py", "e m b/config.pbtxt", ".git/x"):
        (tmp_path / "models" / name).parent.mkdir(parents=True)
        (tmp_path / "models" / name).write_text("x")
    image = tmp_path / "at $HOME"
    image.mkdir()
    launch = encode([*PROGRAM], {}, ["models/ens/1"], shown_at=str(image))
    assert start(shell, container(tmp_path, launch)).returncode == 0
    assert sorted(path.name for path in image.iterdir()) == ["e m b", "ens", "ocr"]
    assert all(path.readlink().is_absolute() for path in image.iterdir())
    assert (image / "ocr/1/model.py").read_text() == "x"
    assert (image / "ens/1").is_dir()


def test_a_container_without_its_place_for_models_says_so(shell, tmp_path):
    """It was not Docker that started it, so there is no image."""
    launch = encode([*PROGRAM], {}, shown_at=str(tmp_path / "models of no image"))
    done = start(shell, container(tmp_path, launch))
    assert done.returncode == 70
    assert b"models of no image is not there: this container was not started by Docker" in (
        done.stderr
    )


def test_a_user_without_an_entry_in_passwd_has_a_name_and_a_home(shell, tmp_path):
    """Python's getpass needs one of USER and LOGNAME; caches fall under HOME; given ones stay."""
    _, variables = heard(shell, tmp_path, [], {})
    assert variables[b"USER"] == variables[b"LOGNAME"] != b""
    _, variables = heard(shell, tmp_path, [], {"USER": "ann"}, {"LOGNAME": "bob"})
    assert (variables[b"USER"], variables[b"LOGNAME"]) == (b"ann", b"bob")
    code = "import getpass, os, pathlib; print(getpass.getuser(), pathlib.Path.home())"
    folder = container(tmp_path, encode([sys.executable, "-c", code], {}))
    nobody = subprocess.run(
        [*shell, SCRIPT], cwd=folder, env={"PATH": "/usr/bin:/bin", "HOME": "/home/"},
        capture_output=True, text=True, check=False, timeout=30,
    )  # fmt: skip
    name, home = nobody.stdout.split()
    assert name
    assert home == str(tmp_path)


def test_home_and_tmpdir_are_the_container_s_own(shell, tmp_path):
    """YARN's HOME is /home/, which nobody may write; a short-lived directory serves."""
    _, variables = heard(shell, tmp_path, [], {}, {"HOME": "/home/"})
    assert variables[b"HOME"].decode() == str(tmp_path)
    assert variables[b"TMPDIR"].decode().endswith(f"/{TMP}")
    assert (tmp_path / TMP).stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("deep", [0, 150])
def test_sockets_can_be_made_in_tmpdir(shell, deep):
    """A Unix socket's path has 107 bytes at most; a container's directory is longer than that."""
    code = (
        "import os, socket, tempfile\n"
        "made = tempfile.mkdtemp(prefix='pymp-')\n"
        "server = socket.socket(socket.AF_UNIX)\n"
        "server.bind(made + '/listener-12345678')\n"
        "print(os.environ['TMPDIR'], os.path.realpath(made))\n"
    )
    with tempfile.TemporaryDirectory(prefix="t", dir="/tmp") as short:
        folder = Path(short, "d" * deep)
        folder.mkdir(exist_ok=True)
        launch = encode([sys.executable, "-c", code], {})
        done = start(shell, container(folder, launch))
        assert done.returncode == 0, done.stderr
        given_path, real = done.stdout.decode().split()
        assert real.startswith(f"{os.path.realpath(folder)}/{TMP}/")
        assert given_path.startswith("/proc/" if deep else str(folder))


def test_a_home_that_was_asked_for_is_kept(shell, tmp_path):
    """So is a TMPDIR, and then no directory is made."""
    given_ones = {"HOME": "/given", "TMPDIR": "/also"}
    _, variables = heard(shell, tmp_path, [], given_ones)
    assert (variables[b"HOME"], variables[b"TMPDIR"]) == (b"/given", b"/also")
    assert not (tmp_path / TMP).exists()


def test_a_variable_of_yarn_is_taken_away(shell, tmp_path):
    """Where the tokens lie is nobody's business in Triton."""
    inherited = {"HADOOP_TOKEN_FILE_LOCATION": "/x", "KEPT": "y", "LC_ALL": "C.UTF-8"}
    environ = {"HADOOP_TOKEN_FILE_LOCATION": None, "NEVER_SET": None}
    _, variables = heard(shell, tmp_path, [], environ, inherited)
    assert b"HADOOP_TOKEN_FILE_LOCATION" not in variables
    assert (variables[b"KEPT"], variables[b"LC_ALL"]) == (b"y", b"C.UTF-8")


def test_directories_are_made(shell, tmp_path):
    """An ensemble's empty version cannot be localized."""
    start(shell, container(tmp_path, encode(["true"], {}, ["models/a b/1", "-p"])))
    assert (tmp_path / "models/a b/1").is_dir()
    assert (tmp_path / "-p").is_dir()


def test_the_program_takes_the_shell_s_place(shell, tmp_path):
    """Its pid is the shell's: YARN's signals reach it."""
    launch = encode([sys.executable, "-c", "import os; print(os.getpid())"], {})
    process = subprocess.Popen(
        [*shell, SCRIPT], cwd=container(tmp_path, launch), stdout=subprocess.PIPE
    )
    out, _ = process.communicate(timeout=30)
    assert int(out) == process.pid


@pytest.mark.parametrize("cut", [0, 1, 5, 15])
def test_half_a_file_starts_nothing(shell, tmp_path, cut):
    """And says so on standard error, which YARN shows."""
    whole = encode(["touch", "started"], {"A": "b"})
    done = start(shell, container(tmp_path, whole[:cut] if cut else whole[:-2]))
    assert done.returncode == 70
    assert b"not whole" in done.stderr
    assert not (tmp_path / "started").exists()


def test_a_missing_file_is_said(shell, tmp_path):
    """In one line."""
    container(tmp_path, b"")
    (tmp_path / LAUNCH).unlink()
    done = start(shell, tmp_path)
    assert (done.returncode, done.stderr.count(b"\n")) == (70, 1)
    assert LAUNCH.encode() in done.stderr


@pytest.mark.parametrize(
    ("argv", "environ"),
    [
        ([], {}), ([""], {}), (["-x"], {}), (["a", "b\0"], {}), (["a", "\ud800"], {}),
        (["a", "x" * 131072], {}), (["a"], {"A": "x" * 131071}), (["a"], {"A": "secret\0"}),
        (["a"], {"A-B": "secret"}), (["a"], {"1A": "secret"}), (["a"], {"": "secret"}),
        (["a"], {"A=B": "secret"}), (["a"], {"UID": "secret"}), (["a"], {"_tarn_line": "secret"}),
        (["a"], {"A\nB": "secret"}),
    ],
)  # fmt: skip
def test_what_cannot_be_passed_is_refused_without_its_value(argv, environ):
    """Trying again cannot help, and the value may be a secret."""
    with pytest.raises(LaunchError) as raised:
        encode(argv, environ)
    assert raised.value.retry_after_s is None
    assert "secret" not in str(raised.value)


def test_the_longest_value_arrives(shell, tmp_path):
    """Linux takes 128 KiB in one string."""
    arguments, variables = heard(shell, tmp_path, [b"y" * 131071], {"A": "x" * 131069})
    assert len(arguments[0]) == 131071
    assert len(variables[b"A"]) == 131069


@given(argv=st.lists(values, min_size=1, max_size=4), environ=st.dictionaries(names, values))
def test_the_file_holds_nothing_that_means_something(argv, environ):
    """Letters, digits and octal escapes, and the marks of the lines."""
    for line in encode([b"p", *argv], environ).split(b"\n")[:-1]:
        assert set(line.replace(b"_", b"")) <= set(
            b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789\\=-+"
        )
        assert line.count(b"=") <= 1


def test_the_command_is_a_constant():
    """Only YARN's own mark is in it."""
    assert COMMAND == (
        "exec sh .tarn/run </dev/null 1>><LOG_DIR>/triton.stderr 2>><LOG_DIR>/triton.stderr"
    )
