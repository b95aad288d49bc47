"""Hadoop's jars and Java's home, from fake installations."""

import zipfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tarn.errors import LaunchError
from tarn.java import dotted, hadoop_classpath, hadoop_numbers, java_home
from tarn.java.classpath import hadoop_version

NEW = "hadoop-common-3.4.2.jar"


def install(home: Path, script: str) -> str:
    """Make ``<home>/bin/hadoop``."""
    program = home / "bin" / "hadoop"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    return str(home)


def jars(directory: Path, *names: str) -> str:
    directory.mkdir()
    for name in names:
        (directory / name).touch()
    return str(directory)


@pytest.mark.parametrize("name", ["setting", "HADOOP_HOME", "HADOOP_COMMON_HOME", "PATH"])
def test_each_place_is_asked(tmp_path: Path, name: str) -> None:
    """`hadoop classpath --glob` of the named home."""
    home = install(tmp_path / "h", f'echo "/seen/$2:/x/{NEW}:$HADOOP_CONF_DIR"')
    environ = {"HADOOP_CONF_DIR": "/etc/hadoop", "PATH": "/usr/bin:/bin"}
    if name == "PATH":
        environ["PATH"] = f"{home}/bin:/usr/bin:/bin"
    elif name != "setting":
        environ[name] = home
    setting = home if name == "setting" else None
    assert hadoop_classpath(environ, setting) == ("/etc/hadoop", "/seen/--glob", f"/x/{NEW}")


def test_the_setting_comes_first(tmp_path: Path) -> None:
    """What the spec says wins over the environment."""
    mine = install(tmp_path / "mine", f"echo /mine/{NEW}")
    theirs = install(tmp_path / "theirs", f"echo /theirs/{NEW}")
    assert hadoop_classpath({"HADOOP_HOME": theirs}, mine) == (f"/mine/{NEW}",)


def test_the_settings_script_sees_no_other_installation(tmp_path: Path) -> None:
    """Hadoop's script believes these variables more than its own place; the rest passes."""
    told = "$HADOOP_HOME:$HADOOP_LIBEXEC_DIR:$HADOOP_COMMON_HOME:$JAVA_HOME"
    mine = install(tmp_path / "mine", f'echo "{told}:/x/{NEW}"')
    names = ("HADOOP_HOME", "HADOOP_LIBEXEC_DIR", "HADOOP_COMMON_HOME")
    environ = {"JAVA_HOME": "/java", "PATH": "/bin", **dict.fromkeys(names, "/theirs")}
    assert hadoop_classpath(environ, mine) == (mine, "/java", f"/x/{NEW}")


def test_a_variable_is_passed_on_as_it_is(tmp_path: Path) -> None:
    """Without the setting the environment is one whole, which somebody made to fit."""
    home = install(tmp_path / "h", f'echo "$HADOOP_LIBEXEC_DIR:/x/{NEW}"')
    environ = {"HADOOP_HOME": home, "HADOOP_LIBEXEC_DIR": "/libexec"}
    assert hadoop_classpath(environ) == ("/libexec", f"/x/{NEW}")


def test_warnings_before_the_list_are_no_jars(tmp_path: Path) -> None:
    """Some scripts print a warning on standard output."""
    home = install(tmp_path / "h", f"echo WARNING: deprecated; echo; echo /a/{NEW}")
    assert hadoop_classpath({"PATH": "/bin"}, home) == (f"/a/{NEW}",)


def test_stars_of_a_classpath_are_replaced(tmp_path: Path) -> None:
    """Only the java command understands `dir/*`."""
    lib = jars(tmp_path / "lib", "b.jar", NEW, "a.JAR", "notes.txt")
    found = hadoop_classpath({"CLASSPATH": f"/conf::{lib}/*", "PATH": ""})
    assert found == ("/conf", f"{lib}/a.JAR", f"{lib}/b.jar", f"{lib}/{NEW}")


def test_no_hadoop_says_what_was_looked_for() -> None:
    """The message names every variable, and what to set."""
    with pytest.raises(LaunchError) as caught:
        hadoop_classpath({"PATH": ""})
    assert caught.value.code == "TARN-3120"
    for word in ("HADOOP_HOME", "CLASSPATH", "PATH", "runtime.options.hadoop_home"):
        assert word in str(caught.value)


@pytest.mark.parametrize(
    ("script", "words"),
    [
        ("echo no JAVA_HOME >&2; exit 1", "no JAVA_HOME"),
        ("exit 3", "exit status 3"),
        ("true", "exit status 0"),
        ("echo /a/guava.jar", "no hadoop-common"),
    ],
)
def test_a_script_that_fails_is_quoted(tmp_path: Path, script: str, words: str) -> None:
    """Its own last line says best what is wrong."""
    home = install(tmp_path / "h", script)
    with pytest.raises(LaunchError, match=words):
        hadoop_classpath({"PATH": "/bin"}, home)


def test_a_home_without_the_script_is_refused_by_name(tmp_path: Path) -> None:
    """A wrong setting or variable is not passed over in silence."""
    with pytest.raises(LaunchError, match=r"hadoop_home = '.*' has no bin/hadoop"):
        hadoop_classpath({"CLASSPATH": f"/{NEW}"}, str(tmp_path))
    good = install(tmp_path / "h", f"echo /x/{NEW}")
    environ = {"HADOOP_HOME": "/nowhere", "PATH": f"{good}/bin"}
    with pytest.raises(LaunchError, match="HADOOP_HOME = '/nowhere' has no bin/hadoop"):
        hadoop_classpath(environ)
    assert hadoop_classpath(environ, good) == (f"/x/{NEW}",)
    jars_only = {"HADOOP_COMMON_HOME": "/nowhere", "PATH": f"{good}/bin:/bin"}
    assert hadoop_classpath(jars_only) == (f"/x/{NEW}",)


def test_an_old_hadoop_is_refused(tmp_path: Path) -> None:
    """3.3.0 is the floor, whatever a vendor appends."""
    home = install(tmp_path / "h", "echo /x/hadoop-common-3.1.1.7.1.7.0-551.jar")
    match = r"Hadoop 3\.1\.1\.7\.1\.7\.0-551 is too old. 3\.3\.0 or newer"
    with pytest.raises(LaunchError, match=match) as caught:
        hadoop_classpath({"PATH": "/bin"}, home)
    assert caught.value.code == "TARN-3121"


def test_the_floor_itself_is_accepted(tmp_path: Path) -> None:
    """3.3.0 has all that is used."""
    home = install(tmp_path / "h", "echo /x/hadoop-common-3.3.0.jar")
    assert hadoop_classpath({"PATH": "/bin"}, home) == ("/x/hadoop-common-3.3.0.jar",)


def jar(path: Path, text: str) -> str:
    with zipfile.ZipFile(path, "w") as made:
        made.writestr("common-version-info.properties", text)
    return str(path)


def test_a_jar_says_itself_what_it_is(tmp_path: Path) -> None:
    """Vendors link `hadoop-common.jar`; what is in it counts, whatever it is called."""
    old = jar(tmp_path / "hadoop-common.jar", "# words\n\nversion=3.2.4\nrevision=7\n")
    with pytest.raises(LaunchError, match=r"Hadoop 3\.2\.4 is too old"):
        hadoop_classpath({"PATH": "/bin"}, install(tmp_path / "old", f"echo {old}"))
    new = jar(tmp_path / "hadoop-common-3.1.1.jar", "version=3.3.6.1.2.4.0-32\n")
    assert hadoop_version([new]) == "3.3.6.1.2.4.0-32"
    assert hadoop_classpath({"PATH": "/bin"}, install(tmp_path / "new", f"echo {new}")) == (new,)


@pytest.mark.parametrize("text", ["", "revision=7\n"])
def test_a_jar_without_a_version_is_accepted(tmp_path: Path, text: str) -> None:
    """Only what tells can be refused: not a file that is none, nor a jar that is silent."""
    told = jar(tmp_path / "hadoop-common.jar", text)
    for entry in ("/x/hadoop-common.jar", told):
        home = install(tmp_path / entry.replace("/", "_"), f"echo {entry}")
        assert hadoop_version([entry]) == ""
        assert hadoop_classpath({"PATH": "/bin"}, home) == (entry,)


@given(st.tuples(*[st.integers(0, 99)] * 3), st.sampled_from(["", "-vendor7", ".7.1.9-12"]))
def test_the_version_is_read_from_any_vendors_name(
    version: tuple[int, int, int], vendor: str
) -> None:
    """The tests' jar beside it tells nothing."""
    whole = f"{dotted(version)}{vendor}"
    name = f"/x/hadoop-common-{whole}"
    assert hadoop_version([f"{name}-tests.jar", f"{name}.jar"]) == whole
    assert hadoop_numbers(whole) == version


@pytest.mark.parametrize("text", ["", "3.3", "trunk", "vendor-3.3.6"])
def test_what_is_no_version_has_no_numbers(text: str) -> None:
    """Nothing is guessed of it."""
    assert hadoop_numbers(text) is None


def test_java_home_in_its_order(tmp_path: Path) -> None:
    """Setting, JAVA_HOME, the installation that `java` on PATH leads to."""
    java = tmp_path / "jdk" / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.touch(mode=0o755)
    link = tmp_path / "links"
    link.mkdir()
    (link / "java").symlink_to(java)
    environ = {"JAVA_HOME": "/env", "PATH": str(link)}
    assert java_home(environ, "/set") == "/set"
    assert java_home(environ) == "/env"
    assert java_home({"PATH": str(link)}) == str(tmp_path / "jdk")
    assert java_home({"PATH": ""}) is None
