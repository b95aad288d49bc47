"""What is looked at before a JVM is started. The JVM itself: tests/yarn."""

import faulthandler
from pathlib import Path

import pytest

from tarn.errors import LaunchError
from tarn.java import jvm, start


def java(home: Path, version: str, library: str = "lib/server/libjvm.so") -> str:
    """Make what a Java installation is known by."""
    home.mkdir()
    (home / "release").write_text(f'IMPLEMENTOR="x"\nJAVA_VERSION="{version}"\n')
    (home / library).parent.mkdir(parents=True)
    (home / library).touch()
    return str(home)


@pytest.mark.parametrize("version", ["11", "11.0.22", "17.0.15", "25"])
def test_a_java_that_is_new_enough_is_taken(tmp_path: Path, version: str) -> None:
    """By the file in which every Java says its version."""
    home = java(tmp_path / "jdk", version)
    assert jvm._library(home) == f"{home}/lib/server/libjvm.so"


def test_an_old_java_is_refused_in_words(tmp_path: Path) -> None:
    """Before it fails with numbers of class files; a JDK 8 without the file is known too."""
    old = java(tmp_path / "jdk8", "1.8.0_392", "jre/lib/amd64/server/libjvm.so")
    with pytest.raises(LaunchError, match=r"Java 8 at '.*jdk8' is too old. Java 11") as caught:
        jvm._library(old)
    assert caught.value.code == "TARN-3122"
    (tmp_path / "jdk8" / "release").unlink()
    with pytest.raises(LaunchError, match="Java 8"):
        jvm._library(old)


def test_a_directory_that_is_no_java_is_refused(tmp_path: Path) -> None:
    """With the file that was looked for."""
    with pytest.raises(LaunchError, match=r"has no lib/server/libjvm\.so"):
        jvm._library(str(tmp_path))


def test_hadoops_own_logging_is_left_alone(tmp_path: Path) -> None:
    """Ours is for a configuration that has none."""
    assert not jvm._has_log4j((str(tmp_path), "/x/log4j.jar"))
    (tmp_path / "log4j.properties").touch()
    assert jvm._has_log4j(("/x/a.jar", str(tmp_path)))


def test_faulthandler_and_a_jvm_do_not_go_together() -> None:
    """Both use SIGSEGV; the message says how to go on."""
    before = faulthandler.is_enabled()
    faulthandler.enable()
    try:
        with pytest.raises(LaunchError, match="faulthandler is enabled") as caught:
            start((), 64)
    finally:
        if not before:
            faulthandler.disable()
    assert caught.value.code == "TARN-3123"
