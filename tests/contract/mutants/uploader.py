"""Carriers with one fault each."""

from pathlib import Path

from tarn.testing.fakes import FakeUploader


class CannotBeAsked(FakeUploader):
    """Has nothing to put a file with."""

    put = None


class CutsFiles(FakeUploader):
    """Keeps the first kilobyte."""

    def put(self, local: Path, uri: str) -> tuple[str, bool]:
        answer = super().put(local, uri)
        self.there[uri] = self.there[uri][:1024]
        return answer


class ForgetsWhatItHas(FakeUploader):
    """Brings everything again."""

    def put(self, local: Path, uri: str) -> tuple[str, bool]:
        where, _ = super().put(local, uri)
        return where, False


class Overwrites(FakeUploader):
    """Puts a file over another one."""

    def put(self, local: Path, uri: str) -> tuple[str, bool]:
        self.there.pop(uri, None)
        return super().put(local, uri)


class RefusesTooLate(FakeUploader):
    """Removes the other file, and then refuses."""

    def put(self, local: Path, uri: str) -> tuple[str, bool]:
        try:
            return super().put(local, uri)
        except Exception:
            self.there[uri] = local.read_bytes()
            raise


class TakesAnyPlace(FakeUploader):
    """Says that it is done, wherever that is."""

    def put(self, local: Path, uri: str) -> tuple[str, bool]:
        return super().put(local, uri) if uri.startswith("fake:") else (uri, False)
