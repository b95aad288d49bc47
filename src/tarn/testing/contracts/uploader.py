"""What a `Deployer` promises that brings files to where its machines read them."""

from pathlib import Path

import pytest

from tarn.errors import ProviderError, RefusedError
from tarn.interfaces import Uploader

__all__ = ["UploaderContract"]

_CONTENT = bytes(range(256)) * 300


class UploaderContract:
    """Override `make`, `uri` and `content`."""

    nowhere = "no-such-scheme://host/file.tar.gz"
    """A URI at which nothing can be written."""

    def make(self, tmp_path: Path) -> Uploader:
        """Return the carrier under test."""
        raise NotImplementedError

    def uri(self, carrier: Uploader) -> str:
        """Return where a file may go; nothing is there yet."""
        raise NotImplementedError

    def content(self, carrier: Uploader, uri: str) -> bytes:
        """Return what its machines read at *uri*, as `Uploader.put` named it."""
        raise NotImplementedError

    def test_is_a_carrier(self, tmp_path: Path) -> None:
        """Everybody who has a file can ask for it."""
        assert isinstance(self.make(tmp_path), Uploader)

    def test_a_file_arrives_whole(self, tmp_path: Path) -> None:
        """Every byte of it, and the answer says that it was not there."""
        carrier = self.make(tmp_path)
        where, there = carrier.put(_file(tmp_path, _CONTENT), self.uri(carrier))
        assert there is False
        assert self.content(carrier, where) == _CONTENT

    def test_it_is_not_brought_twice(self, tmp_path: Path) -> None:
        """The second time it is there, under the URI of the first."""
        carrier, local = self.make(tmp_path), _file(tmp_path, _CONTENT)
        where, _ = carrier.put(local, self.uri(carrier))
        assert carrier.put(local, where) == (where, True)
        assert self.content(carrier, where) == _CONTENT

    def test_another_file_is_never_replaced(self, tmp_path: Path) -> None:
        """One of another size is refused, and what was there stays."""
        carrier = self.make(tmp_path)
        where, _ = carrier.put(_file(tmp_path, _CONTENT), self.uri(carrier))
        with pytest.raises(RefusedError) as caught:
            carrier.put(_file(tmp_path, b"another"), where)
        assert where in str(caught.value)
        assert self.content(carrier, where) == _CONTENT

    def test_a_place_that_is_none_is_an_error_of_the_provider(self, tmp_path: Path) -> None:
        """It names the URI."""
        carrier = self.make(tmp_path)
        with pytest.raises(ProviderError) as caught:
            carrier.put(_file(tmp_path, _CONTENT), self.nowhere)
        assert "no-such-scheme" in str(caught.value)


def _file(folder: Path, content: bytes) -> Path:
    path = folder / "local.tar.gz"
    path.write_bytes(content)
    return path
