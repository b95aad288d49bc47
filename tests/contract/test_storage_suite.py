"""Storages keep the promises of `Storage`."""

import shutil
from collections.abc import Mapping
from pathlib import Path

from contract.fake_suites import FakeStorageSuite

from tarn.testing.contracts import StorageContract
from tarn.testing.contracts.storage import write_files
from tarn_plugins.storage import copy, mount


class TestFake(FakeStorageSuite):
    """In memory."""


class _OnDisk(StorageContract):
    def place(self, tmp_path: Path, files: Mapping[str, bytes]) -> str:
        shutil.rmtree(tmp_path / "repository", ignore_errors=True)
        write_files(tmp_path / "repository", files)
        return self.uri(tmp_path / "repository")

    def missing(self, tmp_path: Path) -> str:
        return self.uri(tmp_path / "nowhere")

    def remove(self, tmp_path: Path) -> None:
        shutil.rmtree(tmp_path / "repository")

    def uri(self, path: Path) -> str:
        return str(path)


class TestMount(_OnDisk):
    """A bare path is used where it is."""

    factory = mount.tarn_storages()["mount"]


class TestCopy(_OnDisk):
    """A URI is copied into the cache."""

    factory = copy.tarn_storages()["copy"]

    def uri(self, path: Path) -> str:
        return f"file://{path}"
