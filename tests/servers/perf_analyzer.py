"""NVIDIA's load client, perf_analyzer: a program that nobody here wrote, as its users start it."""

import fcntl
import importlib.util
import json
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Sequence
from itertools import accumulate
from pathlib import Path

import attrs

from servers.debian_packages import PackagesMissingError, unpacked
from tarn import config

__all__ = ["VERSION", "PerfAnalyzer", "PerfReport", "perf_analyzer", "sequence_data"]

VERSION = "2.60.0"
_RELEASE, _LIBRARIES = "trixie", ("libc6", "libgcc-s1", "libstdc++6")
"""The Debian whose C library it runs with where this machine's is older than `_GLIBC`."""
_GLIBC = (2, 38)
_TAG = f"manylinux_{_GLIBC[0]}_{_GLIBC[1]}_x86_64"
_PROGRAM = "perf_analyzer/bin/perf_analyzer"
_CLIENT = re.compile(r"Client:.*?Request count: (\d+)", re.DOTALL)
_SERVER = re.compile(r"Server:.*?Successful request count: (\d+)", re.DOTALL)
_SEQUENCES = re.compile(r"Sequence count: (\d+)")
_NOT_BEGUN = re.compile(r"for sequence \d+ to model '\w+' must specify the START flag")
_BAD = re.compile(r"had error|rror:|[Ff]ailed")


@attrs.frozen
class PerfReport:
    """What one run said."""

    code: int
    said: str

    @property
    def client(self) -> int:
        """Requests that it sent and counted."""
        return self._number(_CLIENT)

    @property
    def server(self) -> int:
        """Requests that the server's statistics have for the same time."""
        return self._number(_SERVER)

    @property
    def sequences(self) -> int:
        """Sequences that it sent."""
        return self._number(_SEQUENCES)

    @property
    def problem(self) -> str:
        """What went wrong, as it said; empty: nothing."""
        return self._problem(self._bad_lines())

    def problem_in(self, steps: int) -> str:
        """Say what went wrong in the first *steps* requests of sequences; empty: nothing.

        When its count is reached, perf_analyzer ends what is under way; at times that is a sequence
        that it has not begun, which Triton refuses. An error before that keeps the count from being
        reached, and has another exit code.
        """
        if self.code or self.client < steps:
            return self.problem
        return self._problem([line for line in self._bad_lines() if not _NOT_BEGUN.search(line)])

    @property
    def difference(self) -> float:
        """How far the server's count is from the client's, as a fraction of the client's."""
        return abs(self.server - self.client) / max(1, self.client)

    def __str__(self) -> str:
        return self.problem or f"{self.client} requests, {self.server} by the server's statistics"

    def _bad_lines(self) -> list[str]:
        return [line.strip() for line in self.said.splitlines() if _BAD.search(line)]

    def _problem(self, lines: list[str]) -> str:
        if self.code == 0 and not lines and self.client:
            return ""
        last = " ".join(self.said.split())[-200:]
        return f"exit code {self.code}: {'; '.join(lines) or last}"

    def _number(self, pattern: re.Pattern[str]) -> int:
        found = pattern.search(self.said)
        return 0 if found is None else int(found[1])


@attrs.frozen
class PerfAnalyzer:
    """The program, ready to run."""

    argv: tuple[str, ...]

    def run(
        self, address: str, protocol: str, model: str, *options: str, within_s: float = 60
    ) -> PerfReport:
        """Load *model* at ``host:port``, and wait until that is over.

        Args:
            address: Of the server.
            protocol: ``http`` or ``grpc``.
            model: Its name.
            options: More of its command line.
            within_s: It is ended after this time; that is a problem of the run.
        """
        argv = [*self.argv, "-m", model, "-u", address, "-i", protocol, *options]
        try:
            done = subprocess.run(
                argv,
                check=False,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                timeout=within_s,
            )
        except subprocess.TimeoutExpired as error:
            said = error.stdout or b""
            text = said.decode(errors="replace") if isinstance(said, bytes) else said
            return PerfReport(-1, f"{text}\nError: not ended after {within_s:g} s")
        return PerfReport(done.returncode, done.stdout)


def perf_analyzer() -> PerfAnalyzer:
    """Return the program; it is fetched once, into the user's cache.

    Raises:
        PackagesMissingError: It does not run here, or cannot be fetched.
    """
    if platform.machine() != "x86_64":
        raise PackagesMissingError(f"perf_analyzer {VERSION} is not built for {platform.machine()}")
    program = _installed()
    if _glibc() >= _GLIBC:
        return PerfAnalyzer((str(program),))
    return PerfAnalyzer(tuple(unpacked(_RELEASE, *_LIBRARIES).command(program)))


def sequence_data(path: Path, *sequences: Sequence[int]) -> Path:
    """Write the input of the model ``checked``: sequences, each step with its expected sum.

    Whole numbers are written as floats: perf_analyzer takes no others for FP32.
    """
    streams = [
        [
            {"IN": [float(value)], "EXPECTED": [float(total)]}
            for value, total in zip(one, accumulate(one), strict=True)
        ]
        for one in sequences
    ]
    path.write_text(json.dumps({"data": streams}))
    return path


def _glibc() -> tuple[int, ...]:
    library, version = platform.libc_ver()
    return tuple(map(int, version.split("."))) if library == "glibc" else (0, 0)


def _installed() -> Path:
    """Return where the program lies; its wheel is unpacked, for no pip would install it here."""
    cache = config.paths(config.environ()).cache
    cache.mkdir(parents=True, exist_ok=True)
    target = cache / f"perf_analyzer-{VERSION}"
    with (cache / "perf_analyzer.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not target.is_dir():
            with tempfile.TemporaryDirectory(prefix="fetch-", dir=cache) as folder:
                _fetch(Path(folder)).rename(target)
    return target / _PROGRAM


def _fetch(folder: Path) -> Path:
    spec = f"perf-analyzer=={VERSION}"
    argv = [*_pip(), "download", "--quiet", "--no-deps", "--only-binary=:all:"]
    done = subprocess.run(
        [*argv, f"--platform={_TAG}", f"--dest={folder}", spec],
        check=False,
        capture_output=True,
        text=True,
        timeout=300,
    )
    if done.returncode != 0:
        raise PackagesMissingError(f"pip does not bring {spec}: {done.stderr.strip()[-300:]}")
    (wheel,) = folder.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder / "files")
    (folder / "files" / _PROGRAM).chmod(0o755)
    return folder / "files"


def _pip() -> list[str]:
    if importlib.util.find_spec("pip") is not None:
        return [sys.executable, "-m", "pip"]
    if (program := shutil.which("pip3")) is not None:
        return [program]
    raise PackagesMissingError("pip is not installed, which would bring perf_analyzer")
