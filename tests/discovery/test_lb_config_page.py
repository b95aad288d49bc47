"""What docs/how-to/balance-with-haproxy.md shows can be done as it stands there."""

import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest
from click.testing import CliRunner

from tarn.config import load
from tarn_plugins.discovery.haproxy.config_command import config
from tarn_plugins.discovery.haproxy.configuration import HaproxyCfgSettings

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/how-to/balance-with-haproxy.md").read_text("utf-8")
LINES = re.findall(r"^\$ (.+)$", PAGE, re.MULTILINE)
RENDERS = [line for line in LINES if line.startswith("tarn lb haproxy config")]
AGENTS = [line for line in LINES if line.startswith("tarn lb haproxy -c")]
pytestmark = pytest.mark.discovery
needs_haproxy = pytest.mark.skipif(shutil.which("haproxy") is None, reason="no haproxy on PATH")


def _accepts(file: Path) -> None:
    command = ["haproxy", "-c", "-f", str(file)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=20, check=False)
    assert (done.returncode, done.stderr) == (0, "")


@needs_haproxy
@pytest.mark.parametrize("line", RENDERS)
def test_each_rendering_of_the_page_is_valid(line: str, tmp_path: Path) -> None:
    """With the real HAProxy; the certificate's file stands in for the page's."""
    command, _, file = line.partition(" > ")
    folder = str(tmp_path / "files")
    command = command.replace("-o files", f"-o {folder}").replace(
        "/etc/haproxy/tarn", f"{folder}/tarn"
    )
    assert file == ("" if folder in command else "haproxy.cfg")
    done = CliRunner().invoke(config, shlex.split(command)[4:])
    assert done.exit_code == 0, done.output
    if not file:
        _accepts(tmp_path / "files" / "haproxy.cfg")
        return
    text = done.output
    if "--certificate" in command:
        make = "openssl req -x509 -newkey rsa:2048 -nodes -keyout k -out c -subj /CN=lb"
        subprocess.run(shlex.split(make), cwd=tmp_path, check=True, capture_output=True)
        made = (tmp_path / "c").read_text() + (tmp_path / "k").read_text()
        (tmp_path / "lb.pem").write_text(made)
        text = text.replace("/etc/haproxy/ocr.pem", str(tmp_path / "lb.pem"))
    (tmp_path / file).write_text(text)
    _accepts(tmp_path / file)


@needs_haproxy
def test_the_file_of_ones_own_is_valid(tmp_path: Path) -> None:
    """The block that shows what the agent needs."""
    (block,) = re.findall(r"```haproxy\n(.*?)```", PAGE, re.DOTALL)
    (tmp_path / "haproxy.cfg").write_text(block)
    _accepts(tmp_path / "haproxy.cfg")


@pytest.mark.parametrize("block", re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL))
def test_each_configuration_of_the_page_is_one(block: str, tmp_path: Path) -> None:
    """As a tarn.yaml, with one discovery named haproxy that is required."""
    (tmp_path / "tarn.yaml").write_text(block)
    (one,) = load(tmp_path, environ={}).spec.discovery
    assert (one.use, one.required) == ("haproxy", True)


def test_the_agents_of_the_page_are_those_that_the_files_name() -> None:
    """A reader who copies either has the same."""
    assert [
        HaproxyCfgSettings(cluster="ocr").agent,
        HaproxyCfgSettings(cluster="ocr", slots=8).agent,
    ] == AGENTS


def test_the_page_shows_the_options_that_there_are() -> None:
    """Each option in the table is one of the command's."""
    known = {word for parameter in config.params for word in parameter.opts}
    rows = re.findall(r"^\| (`--.+?) \|", PAGE, re.MULTILINE)
    named = {word for row in rows for word in re.findall(r"--[a-z-]+", row)}
    assert len(named) > 8
    assert named - known == set()


def test_the_files_of_the_page_are_where_it_says() -> None:
    """In the repository and, by the build's table, in an installation."""
    build = (ROOT / "pyproject.toml").read_text("utf-8")
    for file in ("scripts/update_haproxy.sh", "services/tarn-haproxy-updater.service"):
        assert file in PAGE
        assert (ROOT / file).is_file()
        assert f'"{file}" = "share/tarn/{Path(file).name}"' in build
