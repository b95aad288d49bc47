"""The pure parts of `tarn pack`, and those that need nothing but files."""

import gzip
import os
import platform
import shutil
import subprocess
import sys
import tarfile
from importlib.metadata import Distribution
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from tarn.errors import ConfigError, ProviderError, ProviderMissingError
from tarn_plugins.cli.pack import fitness, java, options, tree, uv
from tarn_plugins.cli.pack.options import ABOUT, PackOptions
from tarn_plugins.runtime.yarn import environment

GLIBC = tuple(int(n) for n in os.confstr("CS_GNU_LIBC_VERSION").split()[1].split(".")[:2])
names = st.text("abcdefXY0._- é", min_size=1, max_size=8).filter(lambda n: n.strip(".") == n)
trees = st.dictionaries(names, st.tuples(st.binary(max_size=200), st.booleans()), max_size=6)


def grown(root: Path, content: dict[str, tuple[bytes, bool]], at_s: int) -> Path:
    """Make files in a directory, each with the time *at_s*; the order is the dictionary's."""
    root.mkdir(parents=True)
    for name, (data, runs) in content.items():
        path = root / ("bin" if runs else "lib") / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(data)
        path.chmod(0o700 if runs else 0o640)
        os.utime(path, (at_s, at_s))
    (root / "link").symlink_to("bin")
    return root


# -- the archive


@given(content=trees, late=trees)
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_the_same_content_has_the_same_bytes(tmp_path_factory, content, late):
    """Whatever the order and the times of its files; other content has another hash."""
    folder = tmp_path_factory.mktemp("trees")
    first = grown(folder / "a", content, 10)
    again = grown(folder / "b", dict(reversed(content.items())), 2_000_000_000)
    other = grown(folder / "c", late, 10)
    made = [
        tree.write(root, (ABOUT, b"{}"), folder / f"{root.name}.tar.gz")
        for root in (first, again, other)
    ]
    assert made[0] == made[1]
    assert (folder / "a.tar.gz").read_bytes() == (folder / "b.tar.gz").read_bytes()
    assert (made[0].digest == made[2].digest) == (content == late)


def test_an_archive_is_what_a_node_unpacks(tmp_path):
    """Modes and links are kept, nobody owns anything, and `tar` reads the compressed blocks."""
    root = grown(tmp_path / "tree", {"run": (b"#!/bin/sh\n", True), "é": (b"x", False)}, 10)
    (root / "lib" / "big").write_bytes(os.urandom(tree._BLOCK + 1))
    made = tmp_path / "made.tar.gz"
    written = tree.write(root, (ABOUT, b"{}"), made)
    with tarfile.open(made) as tar:
        members = tar.getmembers()
    assert members[0].name == ABOUT
    assert {(m.uid, m.gid, m.uname, m.mtime) for m in members} == {(0, 0, "", 0)}
    (tmp_path / "out").mkdir()
    subprocess.run(["tar", "-xzf", made, "-C", tmp_path / "out"], check=True)
    assert (tmp_path / "out" / "bin" / "run").stat().st_mode & 0o777 == 0o755
    assert (tmp_path / "out" / "link").readlink() == Path("bin")
    assert (tmp_path / "out" / "lib" / "big").read_bytes() == (root / "lib" / "big").read_bytes()
    files = [p for p in root.rglob("*") if p.is_file() and "link" not in p.parts]
    assert written.unpacked == sum(path.stat().st_size for path in files)
    assert gzip.decompress(made.read_bytes())


# -- what the runtime reads of it


@given(head=st.binary(max_size=600))
@example(head=gzip.compress(b""))
@example(head=gzip.compress(b"no archive" * 100))
@example(head=gzip.compress(b"\0" * 1024))
def test_no_bytes_confuse_the_look_at_an_archive(head):
    """Whatever somebody named: it says in words what it is not."""
    seen = environment.examine(head)
    assert seen.about is None
    assert seen.code in ("", "TARN-3192")
    assert list(environment.findings("/a.tar.gz", seen, "1"))


@pytest.mark.parametrize(
    ("tarn", "python", "codes"),
    [
        ("1.0", "3.11.9", []),
        ("1.0", "3.13.0rc1", []),
        ("0.9", "3.11.9", ["TARN-3193"]),
        ("0.9", "3.9.1", ["TARN-3193", "TARN-3193"]),
        ("1.0", "4", ["TARN-3193"]),
        ("1.0", "", ["TARN-3193"]),
    ],
)
def test_an_archive_says_what_is_in_it(tmp_path, tarn, python, codes):
    """Another tarn, or a Python that it does not run on, is found from the first bytes."""
    root = grown(tmp_path / "tree", {"big": (os.urandom(200_000), False)}, 1)
    about = f'{{"tarn": "{tarn}", "python": "{python}"}}'.encode()
    tree.write(root, (ABOUT, about), tmp_path / "made.tar.gz")
    seen = environment.examine((tmp_path / "made.tar.gz").read_bytes()[: environment.HEAD])
    assert seen.about is not None
    assert [f.code for f in environment.findings("/a.tar.gz", seen, "1.0")] == codes


def test_somebody_else_s_archive_is_a_warning(tmp_path):
    """It may well work: nobody knows."""
    root = grown(tmp_path / "tree", {"x": (b"", True)}, 1)
    tree.write(root, ("other", b""), tmp_path / "made.tar.gz")
    seen = environment.examine((tmp_path / "made.tar.gz").read_bytes())
    (finding,) = environment.findings("/a.tar.gz", seen, "1.0")
    assert (finding.code, finding.fatal) == ("TARN-3194", False)


def test_both_sides_call_it_the_same():
    """The packer and the runtime are two plugins that know nothing of one another."""
    assert environment.ABOUT == ABOUT


# -- names


@given(digest=st.text("0123456789abcdef", min_size=64, max_size=64), patch=st.integers(0, 99))
def test_a_name_tells_what_is_inside(digest, patch):
    """Version, Python, C library, content; nothing that a shell of YARN's could misread."""
    about = {"tarn": "1.2.0+x", "python": f"3.12.{patch}", "glibc": "2.28"}
    assert options.name(about, digest) == f"tarn-1.2.0+x-py3.12-glibc2.28-{digest[:12]}.tar.gz"
    uri = f"hdfs:///e/{options.name(about, digest)}"
    assert environment.misplaced(uri) is None


@given(minor=st.integers(17, 99))
def test_wheels_are_never_newer_than_the_nodes(minor):
    """Uv knows some versions; the newest of them that is not beyond the nodes'."""
    chosen = options.platform(PackOptions(glibc=options.glibc(f"2.{minor}"), machine="aarch64"))
    machine, _, number = chosen.rpartition("_")
    assert machine == "aarch64-manylinux_2"
    assert int(number) <= minor


@pytest.mark.parametrize("text", ["2.16", "2", "", "abc", "2.28.1", "1.99", "2.-1", " 2.28"])
def test_a_wrong_glibc_is_refused(text):
    """With the command that tells the right one."""
    with pytest.raises(ConfigError, match="ldd --version"):
        options.glibc(text)


@pytest.mark.parametrize("text", ["3.10", "3.14", "2.7", "311", "", "pypy", "3.11.x"])
def test_a_wrong_python_is_refused(text):
    """Before anything is downloaded."""
    with pytest.raises(ConfigError, match="not a Python that tarn runs on"):
        options.python(text)


def test_a_strange_machine_is_refused():
    """Wheels for it would not be found, one after another."""
    with pytest.raises(ConfigError, match="like the nodes"):
        PackOptions(machine="riscv64")


# -- ELF files


def executables() -> list[Path]:
    found = [Path(sys.executable).resolve(), Path(shutil.which("sh")).resolve()]
    return [*found, *sorted(Path(sys.base_prefix, "lib").rglob("_json*.so"))[:1]]


@pytest.mark.parametrize("path", executables(), ids=lambda path: path.name)
def test_a_real_binary_tells_what_it_needs(path):
    """As readelf has it, where that is installed; never more than this machine has."""
    binary = fitness.read_elf(path.read_bytes())
    assert binary is not None
    assert binary.glibc <= GLIBC
    if shutil.which("readelf") is None:
        return
    said = subprocess.run(
        ["readelf", "-dV", "--wide", path], capture_output=True, text=True, check=True
    ).stdout
    needed = [line.split("[")[1].rstrip("]") for line in said.splitlines() if "(NEEDED)" in line]
    assert list(binary.needed) == needed
    versions = [word for word in said.split() if word.startswith("GLIBC_2.")]
    numbers = [tuple(map(int, word[6:].split(".")[:2])) for word in versions]
    assert binary.glibc == max(numbers, default=(0, 0))


@example(cut=0, where=415, byte=128)
@given(cut=st.integers(0, 5000), where=st.integers(0, 5000), byte=st.integers(0, 255))
@settings(max_examples=200, deadline=None)
def test_a_broken_binary_is_none(cut, where, byte):
    """Cut or changed anywhere, it raises nothing and takes no long time."""
    content = bytearray(Path(shutil.which("sh")).resolve().read_bytes()[: 5000 + cut * 20])
    content[where % len(content)] = byte
    fitness.read_elf(bytes(content))


@pytest.mark.parametrize(
    "content", [b"", b"\x7fELF", b"#!/bin/sh\n", b"\x7fELF\x01\x01" + b"\0" * 99]
)
def test_what_is_no_elf_file_needs_nothing(content):
    """Scripts, empty files, and those for 32 bits."""
    assert fitness.read_elf(content) is None


def test_what_is_too_new_is_named(tmp_path):
    """The neediest first; a link is not looked at twice, and an empty file is none."""
    shutil.copy(Path(sys.executable).resolve(), tmp_path / "python")
    (tmp_path / "link").symlink_to("python")
    (tmp_path / "empty").touch()
    needs = fitness.binaries(tmp_path)
    assert [need.path for need in needs] == ["python"]
    assert not fitness.too_new(needs, GLIBC)
    assert [need.path for need in fitness.too_new(needs, (2, 2))] == ["python"]
    assert fitness.newest(needs) == needs[0].binary.glibc


def test_libraries_of_the_system_are_named():
    """Not those that every Linux has, nor those that come along."""
    needs = [
        fitness.BinaryNeeds("bin/a", fitness.Binary(("libc.so.6", "libssl.so.3", "libown.so.1"))),
        fitness.BinaryNeeds("lib/libown.so.1", fitness.Binary(("ld-linux-x86-64.so.2",))),
    ]
    assert fitness.foreign(needs) == ("libssl.so.3",)


# -- tarn itself


class Installed(Distribution):
    """A distribution that came from *url*."""

    version = "1.2"

    def __init__(self, url: str | None) -> None:
        self.url = url

    def read_text(self, filename):
        return None if self.url is None else f'{{"url": "{self.url}"}}'

    def locate_file(self, path):
        raise NotImplementedError


def wanted(url: str | None) -> str:
    def build(path: Path) -> Path:
        return path / "tarn-1.2-py3-none-any.whl"

    return uv.written(("yarn", "zookeeper"), *uv.origin(Installed(url)), build)


def test_a_release_is_packed_at_its_version():
    """From the index; never a newer one."""
    assert wanted(None) == "tarn-orchestrator[yarn,zookeeper]==1.2"


def test_a_checkout_is_built(tmp_path):
    """A blank in its path is no blank any more in its URL."""
    folder = tmp_path / "a b"
    folder.mkdir()
    wheel = (folder / "tarn-1.2-py3-none-any.whl").as_uri()
    assert wanted(folder.as_uri()) == f"tarn-orchestrator[yarn,zookeeper] @ {wheel}"


def test_a_wheel_and_a_revision_are_taken_as_they_are(tmp_path):
    """What was installed from there."""
    wheel = tmp_path / "tarn.whl"
    wheel.touch()
    assert wanted(wheel.as_uri()) == f"tarn-orchestrator[yarn,zookeeper] @ {wheel.as_uri()}"
    assert wanted("git+https://h/t@abc").endswith(" @ git+https://h/t@abc")


def test_a_checkout_that_is_gone_is_told(tmp_path):
    """Nothing else is packed in its place."""
    with pytest.raises(ProviderError, match="no longer exists") as caught:
        wanted((tmp_path / "gone").as_uri())
    assert caught.value.code == "TARN-3196"


# -- uv


@pytest.mark.parametrize(
    ("said", "code", "hint"),
    [
        ("error: dns error: no such host", "TARN-3196", "UV_DEFAULT_INDEX"),
        ("No solution: numpy>=2 has no wheels with manylinux_2_17", "TARN-3197", "--glibc"),
        ("error: No download found for request: cpython-3.99", "TARN-2000", "uv python list"),
        ("error: write: No space left on device (os error 28)", "TARN-3198", "Free"),
        ("", "TARN-3197", "printed nothing"),
        ("error: at https://ann:hunter2@index/simple", "TARN-3197", "https://***@index"),
    ],
)
def test_uv_s_words_are_passed_on(said, code, hint):
    """With what a person can do about it."""
    error = uv.failure("the packages", said)
    assert error.code == code
    assert hint in str(error)
    assert said[:16] in str(error)
    assert "hunter2" not in str(error)


def test_no_uv_says_what_brings_it(tmp_path, monkeypatch):
    """It is an extra."""
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    with pytest.raises(ProviderMissingError, match="is not installed") as caught:
        uv.found({"PATH": str(tmp_path)})
    assert "tarn-orchestrator[pack]" in caught.value.next_step
    assert caught.value.code == "TARN-3196"


# -- Java


@pytest.mark.parametrize(("release", "found"), [("1.8.0_402", 8), ("", 0), ("x", 0)])
def test_an_old_java_is_refused(tmp_path, release, found):
    """Before anything is packed."""
    (tmp_path / "release").write_text(f'IMPLEMENTOR="x"\nJAVA_VERSION="{release}"\n')
    with pytest.raises(ConfigError, match="11 or newer"):
        java.version(tmp_path)


def test_a_directory_without_java_is_refused(tmp_path):
    """The message shows how one looks."""
    with pytest.raises(ConfigError, match="is not a Java"):
        java.version(tmp_path)


def test_a_jre_is_copied_with_what_its_links_lead_to(tmp_path):
    """Debian keeps its certificates elsewhere; what no server needs stays away."""
    home, away = tmp_path / "jre", tmp_path / "etc"
    (home / "bin").mkdir(parents=True)
    (home / "lib" / "security").mkdir(parents=True)
    away.mkdir()
    (away / "cacerts").write_text("certificates")
    (home / "lib" / "security" / "cacerts").symlink_to(away / "cacerts")
    (home / "lib" / "src.zip").touch()
    (home / "lib" / "libawt_xawt.so").touch()
    (home / "bin" / "java").touch()
    java.bring(home, tmp_path / "made")
    left = {str(p.relative_to(tmp_path / "made")) for p in (tmp_path / "made").rglob("*")}
    assert left == {"bin", "bin/java", "lib", "lib/security", "lib/security/cacerts"}
    assert not (tmp_path / "made" / "lib" / "security" / "cacerts").is_symlink()


# -- the tree


def python_home(root: Path) -> Path:
    """Make something that has the shape of an interpreter's directory."""
    library = root / "lib" / "python3.11"
    for name in ("os.py", "test/x.py", "json/__init__.py", "json/__pycache__/a.pyc", "turtle.py"):
        (library / name).parent.mkdir(parents=True, exist_ok=True)
        (library / name).touch()
    (library / "site-packages" / "pip").mkdir(parents=True)
    (library / "_sysconfigdata__linux.py").write_text(f"x = '{root}/lib'")
    (root / "bin").mkdir()
    (root / "include").mkdir()
    for name in ("bin/python3.11", "bin/pip", "lib/libpython3.11.so.1.0", "lib/libtcl9.so"):
        (root / name).touch()
    return root


def test_what_no_node_needs_stays_away(tmp_path):
    """Tests, windows, headers, pip; and no word of where the interpreter was."""
    home = python_home(tmp_path / "home")
    assert tree.interpreter(home, tmp_path / "made") == "3.11"
    made = {
        str(p.relative_to(tmp_path / "made"))
        for p in (tmp_path / "made").rglob("*")
        if not p.is_dir() or p.is_symlink()
    }
    library = "lib/python3.11"
    assert made == {
        "bin/python", "bin/python3", "bin/python3.11", "lib/libpython3.11.so.1.0",
        f"{library}/os.py", f"{library}/json/__init__.py", f"{library}/_sysconfigdata__linux.py",
    }  # fmt: skip
    said = (tmp_path / "made" / library / "_sysconfigdata__linux.py").read_text()
    assert said == "x = '/install/lib'"


def test_a_directory_without_python_is_told(tmp_path):
    """It names what it would have to hold."""
    with pytest.raises(FileNotFoundError, match=r"no bin/python3\.N"):
        tree.version_in(tmp_path)


def test_packages_keep_no_trace_of_how_they_came(tmp_path):
    """Else the same content had other bytes: paths of caches, and a list of files in any order."""
    site = tree.site_packages(tmp_path, "3.11")
    info = site / "a_b-1.0.dist-info"
    for path in ("a_b/__init__.py", "a_b/x.pyi", "a_b/tests/t.py", "bin/a", ".lock"):
        (site / path).parent.mkdir(parents=True, exist_ok=True)
        (site / path).touch()
    info.mkdir()
    (info / "direct_url.json").write_text('{"url": "file:///tmp/x"}')
    rows = ("bin/a,,\n", "a_b/tests/t.py,,\n", f"{info.name}/direct_url.json,sha,9\n")
    (info / "RECORD").write_text("".join((*rows, f"{info.name}/RECORD,,\n", "a_b/__init__.py,,\n")))
    assert tree.packages(tmp_path, "3.11") == {"a_b": "1.0"}
    assert (info / "RECORD").read_text() == f"{info.name}/RECORD,,\na_b/__init__.py,,\n"
    left = sorted(str(p.relative_to(site)) for p in site.rglob("*") if p.is_file())
    assert left == ["a_b-1.0.dist-info/RECORD", "a_b/__init__.py"]
    assert (
        tree.owners(tmp_path, "3.11")["lib/python3.11/site-packages/a_b/__init__.py"] == "a_b 1.0"
    )


def test_this_machine_is_one_that_archives_are_made_on():
    """The tests with real environments need it."""
    assert platform.machine() in ("x86_64", "aarch64")
