"""Archives of classes: their names, their options, and how they are made, by a Java of the tests.

That a real JVM uses them: tests/yarn/test_class_archive.py.
"""

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tarn.java.archive import ClassArchive, archive_for
from tarn.java.make_archive import hidden, make

JAVA = """#!/bin/sh
for word in "$@"; do
  case $word in
    -XX:SharedArchiveFile=*) file=${word#*=} ;;
    -XX:SharedClassListFile=*) list=${word#*=} ;;
  esac
done
%s
{ echo "$@"; cat "$list"; } >"$file"
"""


def java(home: Path, version: str = "17.0.15", then: str = "") -> Path:
    """Make a Java whose archives hold its arguments and the list; *then* comes before."""
    (home / "bin").mkdir(parents=True)
    (home / "lib" / "server").mkdir(parents=True)
    (home / "lib" / "server" / "libjvm.so").write_text("x")
    (home / "release").write_text(f'JAVA_VERSION="{version}"\n')
    (home / "bin" / "java").write_text(JAVA % then)
    (home / "bin" / "java").chmod(0o755)
    return home


def jar(path: Path, *names: str) -> str:
    """Make a jar with files of these names."""
    with zipfile.ZipFile(path, "w") as opened:
        for name in names:
            opened.writestr(name, "")
    return str(path)


def archive(tmp_path: Path, *classpath: str) -> ClassArchive:
    """Return the archive for the Java in *tmp_path*."""
    found = archive_for(tmp_path / "cache", str(tmp_path / "jdk"), classpath)
    assert found is not None
    return found


@pytest.fixture
def classpath(tmp_path: Path) -> tuple[str, ...]:
    """Return a directory of configuration, two jars and a jar of tests; there is a Java, too."""
    java(tmp_path / "jdk")
    (tmp_path / "cache").mkdir()
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf" / "core-site.xml").touch()
    jars = jar(tmp_path / "a.jar", "A.class"), jar(tmp_path / "b.jar", "core-default.xml")
    return (
        str(tmp_path / "conf"),
        jars[0],
        jar(tmp_path / "a-tests.jar", "core-site.xml"),
        jars[1],
        str(tmp_path / "missing.jar"),
    )


def recorded(tmp_path: Path) -> Path:
    """Make a list of classes, whose last line is cut."""
    listed = tmp_path / "cache" / "key.1.list"
    listed.write_text("a/A\nb/B\nc/Cu")
    return listed


def test_jars_come_first_and_those_of_tests_not_at_all(
    tmp_path: Path, classpath: tuple[str, ...]
) -> None:
    """A jar of tests has a core-site.xml, which would hide the user's."""
    found = archive(tmp_path, *classpath)
    assert [Path(entry).name for entry in found.classpath] == ["a.jar", "b.jar", "conf"]


def test_the_key_is_what_java_compares(tmp_path: Path, classpath: tuple[str, ...]) -> None:
    """Another build, another jar or another time of a jar has another archive."""
    first = archive(tmp_path, *classpath)
    assert archive(tmp_path, *classpath) == first
    keys = {first.file}
    keys.add(archive(tmp_path, *classpath[:-2]).file)
    keys.add(archive(tmp_path, *reversed(classpath)).file)
    os.utime(tmp_path / "a.jar", (1, 1))
    keys.add(archive(tmp_path, *classpath).file)
    (tmp_path / "jdk" / "release").write_text('JAVA_VERSION="17.0.16"\n')
    keys.add(archive(tmp_path, *classpath).file)
    assert len(keys) == 5
    (tmp_path / "conf" / "hdfs-site.xml").touch()  # configuration is not in the archive
    assert archive(tmp_path, *classpath).file in keys


def test_folders_of_links_to_the_same_jars_share_an_archive(
    tmp_path: Path, classpath: tuple[str, ...]
) -> None:
    """So do two sandboxes; a jar under two names, as vendors have it, is there once."""
    links = []
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        for link in ("a.jar", "b.jar", "b-1.0.jar"):
            (tmp_path / name / link).symlink_to(tmp_path / link.replace("-1.0", ""))
        links.append([str(tmp_path / name / link) for link in ("a.jar", "b.jar", "b-1.0.jar")])
    found = [archive(tmp_path, classpath[0], *jars) for jars in links]
    assert found[0] == found[1] == archive(tmp_path, *classpath)


@pytest.mark.parametrize("version", ["1.8.0_392", "11.0.22"])
def test_an_old_java_has_none(tmp_path: Path, version: str) -> None:
    """Nor one that is unknown, or without its program."""
    assert archive_for(tmp_path, str(java(tmp_path / "jdk", version)), ()) is None
    assert archive_for(tmp_path, None, ()) is None
    new = java(tmp_path / "new")
    assert archive_for(tmp_path, str(new), ()) is not None
    (new / "bin" / "java").unlink()
    assert archive_for(tmp_path, str(new), ()) is None


def test_an_archive_is_wanted_until_it_exists(tmp_path: Path, classpath: tuple[str, ...]) -> None:
    """One that could not be made is tried again after a day."""
    found = archive(tmp_path, *classpath)
    assert (found.wanted, found.exists) == (True, False)
    found.file.touch()
    assert (found.wanted, found.exists) == (False, False)
    os.utime(found.file, (1, 1))
    assert (found.wanted, found.exists) == (True, False)
    found.file.write_text("x")
    assert (found.wanted, found.exists) == (False, True)


def test_it_is_made_from_the_list_with_the_jars(tmp_path: Path, classpath: tuple[str, ...]) -> None:
    """Without the line that was cut; only the archive and the lock stay."""
    found, listed = archive(tmp_path, *classpath), recorded(tmp_path)
    assert make(found.file, listed, tmp_path / "jdk", found.classpath)
    words, *classes = found.file.read_text().splitlines()
    assert "-Xshare:dump" in words
    assert words.endswith(f"-cp {tmp_path}/a.jar:{tmp_path}/b.jar")
    assert classes == ["a/A", "b/B"]
    assert found.file.stat().st_mode & 0o777 == 0o600
    assert {file.name for file in (tmp_path / "cache").iterdir()} == {"lock", found.file.name}
    assert not make(found.file, recorded(tmp_path), tmp_path / "jdk", found.classpath)


def test_a_java_that_fails_leaves_an_empty_file(tmp_path: Path, classpath: tuple[str, ...]) -> None:
    """So that the next `tarn up` does not try the same again."""
    found = archive(tmp_path, *classpath)
    failing = java(tmp_path / "failing", then='echo half >"$file"; exit 1')
    assert not make(found.file, recorded(tmp_path), failing, found.classpath)
    assert (found.exists, found.wanted) == (False, False)
    assert {file.name for file in (tmp_path / "cache").iterdir()} == {"lock", found.file.name}


def test_no_jar_may_hide_the_configuration(tmp_path: Path, classpath: tuple[str, ...]) -> None:
    """Behind the jars, the user's files would not be found."""
    assert hidden(archive(tmp_path, *classpath).classpath) == set()
    (tmp_path / "conf" / "own.properties").touch()
    vendor = jar(tmp_path / "v.jar", "yarn-site.xml", "own.properties", "x/hdfs-site.xml")
    found = archive(tmp_path, *classpath, vendor)
    assert hidden(found.classpath) == {"yarn-site.xml", "own.properties"}
    assert not make(found.file, recorded(tmp_path), tmp_path / "jdk", found.classpath)
    assert not found.exists


def test_a_broken_jar_is_left_to_an_ordinary_start(
    tmp_path: Path, classpath: tuple[str, ...]
) -> None:
    """Java skips it there."""
    (tmp_path / "broken.jar").write_text("no jar")
    found = archive(tmp_path, *classpath, str(tmp_path / "broken.jar"))
    assert not make(found.file, recorded(tmp_path), tmp_path / "jdk", found.classpath)
    assert (found.exists, found.wanted) == (False, False)


def test_of_two_processes_one_makes_it(tmp_path: Path, classpath: tuple[str, ...]) -> None:
    """The other leaves at once."""
    found, gate = archive(tmp_path, *classpath), tmp_path / "gate"
    os.mkfifo(gate)
    slow = java(tmp_path / "slow", then=f"read line <{gate}")
    command = [sys.executable, "-m", "tarn.java.make_archive", str(found.file)]
    command += [str(recorded(tmp_path)), str(slow), *found.classpath]
    with subprocess.Popen(command) as first:
        with gate.open("w") as go:  # opens once the first one's Java waits
            assert not make(found.file, recorded(tmp_path), tmp_path / "jdk", found.classpath)
            go.write("go\n")
        assert first.wait(60) == 0
    assert found.exists


def test_only_the_newest_archives_stay(tmp_path: Path, classpath: tuple[str, ...]) -> None:
    """Each update of Hadoop or Java leaves one behind, and each killed client a list."""
    cache, found = tmp_path / "cache", archive(tmp_path, *classpath)
    for number in range(4):
        (cache / f"{number}.jsa").touch()
        os.utime(cache / f"{number}.jsa", (number, number))
    (cache / "left.2.list").touch()
    os.utime(cache / "left.2.list", (1, 1))
    make(found.file, recorded(tmp_path), tmp_path / "jdk", found.classpath)
    assert {file.name for file in cache.glob("*.*")} == {"2.jsa", "3.jsa", found.file.name}
