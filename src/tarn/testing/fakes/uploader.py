"""A carrier whose far machines are a dictionary."""

from pathlib import Path

from tarn.errors import ProviderError, RefusedError

__all__ = ["FakeUploader"]


class FakeUploader:
    """Keeps what it is given in `there`, URI to content; knows the scheme ``fake`` only."""

    def __init__(self) -> None:
        self.there: dict[str, bytes] = {}

    def put(self, local: Path, uri: str) -> tuple[str, bool]:
        """Keep the file's content, unless a file of its size is there."""
        if not uri.startswith("fake://"):
            raise ProviderError("fake", "nothing can be written there", where=uri)
        content = local.read_bytes()
        held = self.there.get(uri)
        if held is None:
            self.there[uri] = content
            return uri, False
        if len(held) != len(content):
            raise RefusedError("there is another file of this name", where=uri)
        return uri, True
