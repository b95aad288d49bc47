"""The seeds' script and unit: thin calls that keep the token to themselves."""

import configparser
import json
import os
import shutil
import signal
import stat
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from tarn.testing.wait import until

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "scripts/update_haproxy.sh"
UNIT = ROOT / "services/tarn-haproxy-updater.service"
SHELLS = {"dash": ["dash"], "bash": ["bash", "--posix"], "busybox": ["busybox", "sh"]}
STUB = f"""#!{sys.executable}
import json, os, pathlib, sys, time
here = pathlib.Path(os.environ["STUB_HERE"])
seen = {{"argv": sys.argv[1:], "environ": dict(os.environ), "pid": os.getpid(), "token": None}}
if "--token-file" in sys.argv:
    file = sys.argv[sys.argv.index("--token-file") + 1]
    # an agent reads it again after a reconnect
    seen["token"] = [pathlib.Path(file).read_text() for _ in range(2)]
    seen["mode"], seen["links"] = oct(os.stat(file).st_mode & 0o777), os.stat(file).st_nlink
(here / "seen.new").write_text(json.dumps(seen))
(here / "seen.new").rename(here / "seen.json")
if os.environ.get("STUB_STAYS"):
    time.sleep(60)
sys.exit(5)
"""
pytestmark = pytest.mark.discovery


@pytest.fixture(params=sorted(SHELLS))
def shell(request: pytest.FixtureRequest) -> list[str]:
    words = SHELLS[request.param]
    if shutil.which(words[0]) is None:
        pytest.skip(f"no {words[0]} on this machine")
    return words


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    (tmp_path / "bin").mkdir()
    (tmp_path / "tmp").mkdir()
    stub = tmp_path / "bin/tarn"
    stub.write_text(STUB)
    stub.chmod(0o755)
    path = f"{tmp_path / 'bin'}:{os.environ['PATH']}"  # noqa: TID251
    return {"PATH": path, "STUB_HERE": str(tmp_path), "TMPDIR": str(tmp_path / "tmp")}


def _call(
    shell: list[str], here: Path, environ: dict[str, str], *arguments: str
) -> tuple[int, dict[str, object]]:
    command = [*shell, str(SCRIPT), *arguments]
    done = subprocess.run(command, env=environ, cwd=here, timeout=20, check=False)
    return done.returncode, json.loads((here / "seen.json").read_text())


@pytest.mark.parametrize("token", ['x"; touch p; "', "$(touch p)", "`touch p`", "-n", "\\c%s'"])
def test_a_token_is_a_value_and_reaches_the_agent_in_a_file_only(
    shell: list[str], token: str, tmp_path: Path, environ: dict[str, str]
) -> None:
    """Contract 25: no file p; not in the agent's arguments nor environment; nothing is left."""
    code, seen = _call(shell, tmp_path, environ, "/run/my ha.sock", token)
    assert code == 5
    assert seen["token"] == [f"{token}\n"] * 2
    assert (seen["mode"], seen["links"]) == ("0o600", 0)
    assert token not in seen["argv"]
    assert token not in seen["environ"].values()
    assert seen["argv"][:6] == [
        "lb",
        "haproxy",
        "--socket",
        "/run/my ha.sock",
        "--slots",
        "triton-",
    ]
    assert list((tmp_path / "tmp").iterdir()) == []
    assert not (tmp_path / "p").exists()


def test_without_a_token_none_is_handed_over(
    shell: list[str], tmp_path: Path, environ: dict[str, str]
) -> None:
    """Neither an absent nor an empty one; TARN_CLUSTER names the cluster."""
    wanted = ["lb", "haproxy", "--socket", "/s", "--slots", "triton-"]
    assert _call(shell, tmp_path, environ, "/s")[1]["argv"] == wanted
    named = {**environ, "TARN_CLUSTER": "ocr"}
    assert _call(shell, tmp_path, named, "/s", "")[1]["argv"] == [*wanted, "-c", "ocr"]


def test_a_credential_of_systemd_goes_before_the_argument(
    shell: list[str], tmp_path: Path, environ: dict[str, str]
) -> None:
    """It is named as it is; a folder without it does not count."""
    folder = tmp_path / "credentials"
    folder.mkdir()
    environ["CREDENTIALS_DIRECTORY"] = str(folder)
    assert _call(shell, tmp_path, environ, "/s", "argued")[1]["token"] == ["argued\n"] * 2
    (folder / "api_token").write_text("given")
    seen = _call(shell, tmp_path, environ, "/s", "argued")[1]
    assert seen["argv"][-2:] == ["--token-file", str(folder / "api_token")]
    assert seen["token"] == ["given"] * 2


def test_the_script_becomes_the_agent(
    shell: list[str], tmp_path: Path, environ: dict[str, str]
) -> None:
    """SIGTERM meets the agent itself, and what ends is what systemd started."""
    environ["STUB_STAYS"] = "yes"
    command = [*shell, str(SCRIPT), "/s", "secret"]
    with subprocess.Popen(command, env=environ, cwd=tmp_path) as script:
        until((tmp_path / "seen.json").exists, within_s=20)
        assert json.loads((tmp_path / "seen.json").read_text())["pid"] == script.pid
        script.send_signal(signal.SIGTERM)
        assert script.wait(10) == -signal.SIGTERM
    assert list((tmp_path / "tmp").iterdir()) == []


@pytest.mark.parametrize("arguments", [[], ["/s", "t", "more"]], ids=["none", "too many"])
def test_wrong_usage_is_told(
    shell: list[str], arguments: list[str], tmp_path: Path, environ: dict[str, str]
) -> None:
    """Exit code 2, which the unit takes as final."""
    command = [*shell, str(SCRIPT), *arguments]
    done = subprocess.run(
        command, env=environ, capture_output=True, text=True, timeout=20, check=False
    )
    assert (done.returncode, done.stderr) == (2, "usage: update_haproxy.sh SOCKET [TOKEN]\n")


def test_the_unit_calls_the_script_as_it_always_did() -> None:
    """Its token comes as a credential; a refused one ends it, everything else starts it again."""
    unit = configparser.RawConfigParser(strict=False, interpolation=None)
    unit.optionxform = str
    unit.read(UNIT)
    service = unit["Service"]
    assert service["ExecStart"] == "/usr/local/bin/update_haproxy.sh /var/run/haproxy.sock"
    assert service["LoadCredential"] == "api_token:/etc/tarn/api_token"
    assert service["Restart"] == "always"
    assert service["RestartPreventExitStatus"].split() == ["2", "5"]


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="no systemd-analyze here")
def test_systemd_understands_the_unit(tmp_path: Path) -> None:
    """No unknown key, no value that is passed over."""
    script, unit = tmp_path / SCRIPT.name, tmp_path / UNIT.name
    shutil.copy(SCRIPT, script)
    unit.write_text(UNIT.read_text().replace("/usr/local/bin/update_haproxy.sh", str(script)))
    done = subprocess.run(
        ["systemd-analyze", "verify", str(unit)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    said = [line for line in done.stderr.splitlines() if UNIT.name in line]
    assert (done.returncode, said) == (0, [])


def test_both_files_are_in_what_is_distributed(tmp_path: Path) -> None:
    """In the source distribution where they are here, the script as a program."""
    build = [sys.executable, "-m", "hatchling", "build", "-t", "sdist", "-d", str(tmp_path)]
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True, timeout=100)
    (archive,) = tmp_path.glob("*.tar.gz")
    with tarfile.open(archive) as tar:
        held = {member.name.split("/", 1)[1]: member.mode for member in tar if "/" in member.name}
    assert held["scripts/update_haproxy.sh"] & stat.S_IXUSR
    assert "services/tarn-haproxy-updater.service" in held
