"""Which requests to a Triton concern the whole fleet, and which part of its API each is of. Pure.

Measured on Triton 2.51: the index is asked for by POST only. Settings are read by GET and changed
by POST. A path with a slash at its end, or with an empty name, is not found.
"""

import enum
import re
from urllib.parse import unquote

import attrs

__all__ = ["QuestionKind", "TritonQuestion", "question_at"]

LONGEST_NAME = 255


class QuestionKind(enum.StrEnum):
    """What is asked; the value names the part of Triton's API that can be restricted."""

    SERVER = "server"
    MODEL = "model"
    CONFIG = "config"
    READY = "ready"
    STATISTICS = "statistics"
    INDEX = "index"
    LOAD = "load"
    UNLOAD = "unload"
    TRACE = "trace"
    LOG = "log"
    MEMORY = "memory"


_PARTS = {
    QuestionKind.SERVER: "metadata",
    QuestionKind.MODEL: "metadata",
    QuestionKind.CONFIG: "model-config",
    QuestionKind.READY: "health",
    QuestionKind.STATISTICS: "statistics",
    QuestionKind.INDEX: "model-repository",
    QuestionKind.LOAD: "model-repository",
    QuestionKind.UNLOAD: "model-repository",
    QuestionKind.TRACE: "trace",
    QuestionKind.LOG: "logging",
    QuestionKind.MEMORY: "shared-memory",
}
_READ, _WRITE, _BOTH = ("GET",), ("POST",), ("GET", "POST")


@attrs.frozen
class TritonQuestion:
    """One request of those that concern the whole fleet."""

    kind: QuestionKind
    path: str
    """As Triton knows it, percent-encoded."""
    model: str = ""
    """Empty: all models, or the server itself."""
    version: str = ""
    """Empty: every version, or the one that Triton chooses."""

    @property
    def part(self) -> str:
        """The part of Triton's API that it belongs to, as `triton.restricted` names it."""
        return _PARTS[self.kind]

    @property
    def methods(self) -> tuple[str, ...]:
        """The methods that Triton takes."""
        if self.kind in (QuestionKind.INDEX, QuestionKind.LOAD, QuestionKind.UNLOAD):
            return _WRITE
        if self.kind is QuestionKind.MEMORY:
            return _READ if self.path.endswith("/status") else _WRITE
        return _BOTH if self.kind in (QuestionKind.TRACE, QuestionKind.LOG) else _READ

    def changes(self, method: str) -> bool:
        """Return whether the request changes something."""
        return method == "POST" and self.kind is not QuestionKind.INDEX


_FIXED = {
    "/v2": QuestionKind.SERVER,
    "/v2/models/stats": QuestionKind.STATISTICS,
    "/v2/repository/index": QuestionKind.INDEX,
    "/v2/trace/setting": QuestionKind.TRACE,
    "/v2/logging": QuestionKind.LOG,
}
_OF_MODEL = re.compile(
    r"/v2/models/([^/]+)(?:/versions/([0-9]{1,19}))?(?:/(config|ready|stats))?", re.ASCII
)
_TRACE = re.compile(r"/v2/models/([^/]+)/trace/setting")
_REPOSITORY = re.compile(r"/v2/repository/models/([^/]+)/(load|unload)")
_MEMORY = re.compile(
    r"/v2/(?:system|cuda)sharedmemory(?:/region/([^/]+)/register"
    r"|(?:/region/([^/]+))?/(?:status|unregister))"
)
_BELOW = {
    None: QuestionKind.MODEL,
    "config": QuestionKind.CONFIG,
    "ready": QuestionKind.READY,
    "stats": QuestionKind.STATISTICS,
}


def question_at(path: str) -> TritonQuestion | None:
    """Return the question at the percent-encoded *path*; None if it is of no such kind."""
    if (kind := _FIXED.get(path)) is not None:
        return TritonQuestion(kind, path)
    if found := _TRACE.fullmatch(path):
        return _named(QuestionKind.TRACE, path, found[1])
    if found := _REPOSITORY.fullmatch(path):
        return _named(QuestionKind(found[2]), path, found[1])
    if found := _MEMORY.fullmatch(path):
        named = _named(QuestionKind.MEMORY, path, found[1] or found[2] or "")
        return named and TritonQuestion(QuestionKind.MEMORY, path)
    if found := _OF_MODEL.fullmatch(path):
        return _named(_BELOW[found[3]], path, found[1], found[2] or "")
    return None


def _named(kind: QuestionKind, path: str, name: str, version: str = "") -> TritonQuestion | None:
    try:
        model = unquote(name, errors="strict")
    except UnicodeDecodeError:
        return None
    # A name that contains a slash would be another path to the instances.
    if not model.isprintable() or "/" in model or len(model) > LONGEST_NAME:
        return None
    return TritonQuestion(kind, path, model, version)
