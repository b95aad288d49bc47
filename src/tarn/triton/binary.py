"""Finds tritonserver, and assembles the Python backend of the wheel's."""

import ctypes.util
import hashlib
import importlib.metadata
import importlib.util
import os
import re
import shutil
import site
import sys
import sysconfig
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import attrs

from tarn.errors import LaunchError, RefusedError
from tarn.triton import regions
from tarn.triton.folders import private_folder

if TYPE_CHECKING:
    from tarn.interfaces import Finding

__all__ = [
    "TritonProgram",
    "Wheel",
    "check",
    "environment",
    "find_wheel",
    "foresee",
    "locate",
    "prepare",
    "unloadable",
]

# The wheel's binaries were linked against it.
OLDEST_GLIBC = (2, 35)
_LIBRARY, _MODULE = "libtriton_python.so", "triton_python_backend_utils.py"
_WHEEL = (
    "pip install 'tarn-orchestrator[local]'"
    if sys.version_info < (3, 13)
    else "pip install --no-deps 'nvidia-pytriton==0.7.*'"  # its numpy 1 has no wheel for 3.13
)
# Paths that the Python back end can pass on: it starts its processes through a shell, in ASCII.
_LOADABLE = re.compile(r"[A-Za-z0-9_./@%+=:,*-]*")
_INSTALL = f"{_WHEEL}, put tritonserver on PATH, or set triton.binary"


@attrs.frozen
class TritonProgram:
    """A tritonserver that can be started."""

    path: str
    backend_directory: str | None = None
    """The backends, if they are ours; None for its own."""
    library_path: tuple[str, ...] = ()
    """Folders to put first into ``LD_LIBRARY_PATH``."""
    cache_directory: str | None = None
    """The response caches, if they are the wheel's; None for its own."""


@attrs.frozen
class Wheel:
    """The parts of the installed wheel nvidia-pytriton."""

    package: Path
    version: str

    @property
    def server(self) -> Path:
        """Tritonserver itself."""
        return self.package / "tritonserver" / "bin" / "tritonserver"

    @property
    def backend(self) -> Path:
        """Its Python backend, without a stub."""
        return self.package / "tritonserver" / "backends" / "python"

    @property
    def caches(self) -> Path:
        """Its response caches; missing in an old wheel."""
        return self.package / "tritonserver" / "caches"

    @property
    def libraries(self) -> Path:
        """The shared libraries that came with it."""
        return self.package.parent / "nvidia_pytriton.libs"

    @property
    def stub(self) -> Path:
        """The stub for the running Python; may be missing for a new version."""
        version = f"{sys.version_info.major}.{sys.version_info.minor}"
        stubs = self.package / "tritonserver" / "python_backend_stubs"
        return stubs / version / "triton_python_backend_stub"


def find_wheel() -> Wheel | None:
    """Return the installed wheel, without importing it; None if there is none."""
    found = importlib.util.find_spec("pytriton")
    if found is None or found.origin is None:
        return None
    try:
        version = importlib.metadata.version("nvidia-pytriton")
    except importlib.metadata.PackageNotFoundError:
        return None
    wheel = Wheel(Path(found.origin).parent, version)
    return wheel if wheel.server.exists() else None


def locate(binary: str | None, environ: Mapping[str, str]) -> str | Wheel:
    """Return the path of tritonserver in *binary*, else on ``PATH``, else the wheel.

    Raises:
        LaunchError: There is none (code TARN-3101).
    """
    if binary is not None:
        found = shutil.which(binary, path=environ.get("PATH"))
        if found is None:
            raise _missing(f"'{binary}' does not exist or is not executable", "triton.binary")
        return found
    on_path = shutil.which("tritonserver", path=environ.get("PATH", ""))
    if on_path is not None:
        return on_path
    wheel = find_wheel()
    if wheel is None:
        found_text = "no tritonserver is on PATH, and the wheel nvidia-pytriton is not installed"
        raise _missing(found_text, "triton.binary")
    return wheel


def unloadable(path: Path) -> str:
    """Return the characters in *path* that the Python back end cannot handle."""
    signs = sorted({sign for sign in str(path.absolute()) if not _LOADABLE.fullmatch(sign)})
    return ", ".join(f"'{sign}'" if sign.isprintable() else ascii(sign) for sign in signs)


def check(
    binary: str | None, environ: Mapping[str, str], cache: Path | None = None
) -> Iterator["Finding"]:
    """Yield what would keep tritonserver from starting on this machine; changes nothing.

    *cache* is the folder for the wheel's Python backend; None to leave that out.
    """
    # It takes 45 ms, which `tarn.triton.start` need not spend at every start of an instance.
    from tarn.interfaces import Finding  # noqa: PLC0415

    try:
        found = locate(binary, environ)
        if isinstance(found, Wheel):
            _check_wheel(found)
            if cache is not None and (signs := unloadable(cache)):
                what = (
                    f"the path {cache} contains {signs}, and Triton cannot load its backend "
                    "from such a path"
                )
                step = "Set XDG_CACHE_HOME to a folder without such characters"
                yield Finding("TARN-2205", "the cache", what, step)
    except LaunchError as error:
        yield Finding(error.code, error.where, error.found, error.next_step)


def prepare(binary: str | None, environ: Mapping[str, str], cache: Path) -> TritonProgram:
    """Return a tritonserver that can be started; assemble its Python backend if needed.

    The backend is assembled below *cache*, once for each wheel, interpreter and environment.

    Raises:
        LaunchError: There is no tritonserver, or this machine cannot run it.
    """
    found = locate(binary, environ)
    if isinstance(found, str):
        return TritonProgram(found)
    _check_wheel(found)
    _assemble(found, cache / "backends")
    return _assembled(found, cache)


def foresee(binary: str | None, environ: Mapping[str, str], cache: Path) -> TritonProgram:
    """Return what `prepare` would return, without assembling anything.

    Raises:
        LaunchError: There is no tritonserver.
    """
    found = locate(binary, environ)
    return TritonProgram(found) if isinstance(found, str) else _assembled(found, cache)


def environment(program: TritonProgram, inherited: Mapping[str, str]) -> dict[str, str]:
    """Return *inherited* with the variables that *program* needs."""
    environ = dict(inherited)
    if program.library_path:
        libraries = [*program.library_path, environ.get("LD_LIBRARY_PATH", "")]
        environ["LD_LIBRARY_PATH"] = ":".join(filter(None, libraries))
        # The stub's interpreter finds its packages by the `python3` on PATH, even before the shim.
        folders = [str(Path(sys.executable).parent), environ.get("PATH", "")]
        environ["PATH"] = ":".join(filter(None, folders))
    return environ


def _assembled(wheel: Wheel, cache: Path) -> TritonProgram:
    libraries = (str(wheel.libraries), *_libpython(wheel.stub)[0])
    backends = str(_target(wheel, cache / "backends"))
    return TritonProgram(str(wheel.server), backends, libraries, str(wheel.caches))


def _missing(found: str, where: str) -> LaunchError:
    return LaunchError("tritonserver", found, code="TARN-3101", where=where, next_step=_INSTALL)


def _check_wheel(wheel: Wheel) -> None:
    """Raise a ``LaunchError`` if this machine cannot run *wheel*."""
    glibc = _glibc()
    if glibc < OLDEST_GLIBC:
        have = "no glibc" if glibc == (0, 0) else f"glibc {glibc[0]}.{glibc[1]}"
        found = f"this system has {have}; the Triton of the wheel needs 2.35 or newer"
        raise _unfit("TARN-3102", wheel, found, "Use a newer system, or set triton.binary")
    version = wheel.stub.parent.name
    if not wheel.stub.exists():
        found = f"the wheel has no Python backend for Python {version}"
        raise _unfit("TARN-3104", wheel, found, "Use Python 3.11 to 3.13, or set triton.binary")
    if missing := _libpython(wheel.stub)[1]:
        found = f"Triton's Python backend needs {missing}, which this system does not have"
        package = f"libpython{version}"
        step = f"Install it (Debian: {package}), or use a Python built with --enable-shared"
        raise _unfit("TARN-3104", wheel, found, step)


def _unfit(code: str, wheel: Wheel, found: str, next_step: str) -> LaunchError:
    where = f"nvidia-pytriton {wheel.version}"
    return LaunchError("tritonserver", found, code=code, where=where, next_step=next_step)


def _glibc() -> tuple[int, int]:
    """Return glibc's version; (0, 0) for another C library."""
    try:
        text = os.confstr("CS_GNU_LIBC_VERSION") or ""
    except (ValueError, OSError):
        return (0, 0)
    matched = re.fullmatch(r"glibc (\d+)\.(\d+).*", text)
    return (int(matched[1]), int(matched[2])) if matched else (0, 0)


def _libpython(stub: Path) -> tuple[tuple[str, ...], str]:
    """Return the folder of the libpython that *stub* needs, and its name if it is missing.

    There is no folder if the loader finds it by itself.
    """
    matched = re.search(rb"libpython3(?:-\w+)?\.\d+\.so\.1\.0", stub.read_bytes())
    name = matched[0].decode() if matched else f"libpython{stub.parent.name}.so.1.0"
    if "-" in name:  # part of the wheel, under its own name
        return (), ""
    # The interpreter's own first: it finds the matching standard library. The prefix comes before
    # LIBDIR, which is not right for a Python that was moved.
    for folder in (Path(sys.base_prefix, "lib"), sysconfig.get_config_var("LIBDIR")):
        if folder and Path(folder, name).exists():
            return (str(folder),), ""
    known = ctypes.util.find_library(name.removeprefix("lib").partition(".so")[0])
    return (), "" if known else name


def _site_folders(wheel: Wheel) -> tuple[str, ...]:
    """Return the folders of the environment's packages."""
    # The stub's interpreter does not know a virtual environment.
    folders = [sysconfig.get_path("purelib"), sysconfig.get_path("platlib")]
    folders += [*site.getsitepackages(), str(wheel.package.parent)]
    if site.ENABLE_USER_SITE:
        folders.append(site.getusersitepackages())
    return tuple(dict.fromkeys(folders))


def _target(wheel: Wheel, cache: Path) -> Path:
    shim = _shim(wheel.backend / _MODULE, _site_folders(wheel))
    of = "\0".join((wheel.version, str(wheel.package), wheel.stub.parent.name, shim))
    return cache / hashlib.sha256(of.encode()).hexdigest()[:16]


def _assemble(wheel: Wheel, cache: Path) -> None:
    folders, target = _site_folders(wheel), _target(wheel, cache)
    try:
        private_folder(cache.parent)
        private_folder(cache)
        if target.exists():
            private_folder(target)
            return
        with tempfile.TemporaryDirectory(prefix=".new-", dir=cache) as new:
            whole = Path(new, "whole")
            _fill(whole / "python", wheel, folders)
            try:
                whole.rename(target)
            except OSError:
                # Perhaps another process was first: its copy is as good as ours.
                if not target.exists():
                    raise
    except RefusedError as error:
        raise LaunchError(
            "tritonserver",
            error.found,
            code=error.code,
            where=error.where,
            next_step=error.next_step,
        ) from error
    except OSError as error:
        found = f"the Python backend could not be assembled in {cache}: {error.strerror}"
        raise LaunchError("tritonserver", found, code="TARN-3201", retry_after_s=10.0) from error


def _fill(folder: Path, wheel: Wheel, folders: tuple[str, ...]) -> None:
    private_folder(folder)  # nobody else gets in, so the modes of the files do not matter
    shutil.copy2(wheel.backend / _LIBRARY, folder)
    Path(shutil.copy2(wheel.stub, folder)).chmod(0o755)
    (folder / _MODULE).write_text(_shim(wheel.backend / _MODULE, folders))


def _shim(original: Path, folders: tuple[str, ...]) -> str:
    """Return the module that a stub imports first; it adds the environment's packages."""
    return (
        '"""A region of its own, the environment\'s packages, then Triton\'s own module."""\n'
        f"{regions.IN_STUBS}"
        "import sys as _sys\n"
        "_sys.stdout.reconfigure(line_buffering=True)  # what it prints is in the log at once\n"
        "import site as _site\n"
        f"for _folder in {folders!r}:\n"
        "    _site.addsitedir(_folder)\n"
        f"with open({str(original)!r}) as _file:\n"
        "    _code = compile(_file.read(), _file.name, 'exec')\n"
        "exec(_code, globals())\n"
    )
