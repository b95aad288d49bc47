"""The schema of a ``config.pbtxt``. The only use of protobuf's ``ModelConfig``."""

import importlib
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import attrs

from tarn.errors import ProviderMissingError
from tarn.interfaces.lint import Flaw, Node, printable
from tarn.triton.lint.backends import nearest
from tarn.triton.lint.pbtxt import Broken, read

__all__ = ["Schema", "load"]

_MODULE = "tritonclient"
_TRUTH = frozenset({"true", "false", "True", "False", "t", "f", "1", "0"})
_LEAST_MOST = {32: (-(2**31), 2**31 - 1), 64: (-(2**63), 2**63 - 1)}


@attrs.frozen
class Schema:
    """Protobuf's parser for ``ModelConfig``, with errors for people."""

    _message: Any
    """The class ``ModelConfig``."""
    _text_format: Any
    """The module ``google.protobuf.text_format``."""

    def parse(self, text: str) -> tuple[Node | None, tuple[Flaw, ...]]:
        """Return the configuration without flaws, or None with all its flaws.

        Protobuf's parser decides whether there are flaws.
        """
        try:
            root = read(text)
        except Broken as broken:
            return None, (broken.flaw,)
        try:
            self._text_format.Parse(text.encode("utf-8", "replace").decode(), self._message())
        except self._text_format.ParseError as error:
            flaws = tuple(_flaws(root, self._message.DESCRIPTOR, "the configuration"))
            return None, flaws or (_foreign(error),)
        return root, ()


def load(import_module: Callable[[str], Any] = importlib.import_module) -> Schema:
    """Return the schema of the installed tritonclient; takes half a second the first time.

    Raises:
        ProviderMissingError: Its gRPC part, which has the messages, is not installed.
    """
    try:
        messages = import_module("tritonclient.grpc.model_config_pb2")
        text_format = import_module("google.protobuf.text_format")
    except ImportError as error:
        raise ProviderMissingError(
            "lint",
            f"a config.pbtxt is read with {_MODULE}: {ProviderMissingError.reason(_MODULE, error)}",
            next_step="pip install 'tarn-orchestrator[local]'",
        ) from error
    return Schema(messages.ModelConfig, text_format)


def _foreign(error: Any) -> Flaw:
    """Return a flaw with protobuf's message, for errors that `_flaws` does not find."""
    said = printable(str(error).partition(" : ")[2] or str(error))
    return Flaw("TARN-2322", said, error.GetLine(), error.GetColumn())


def _flaws(node: Node, descriptor: Any, inside: str) -> Iterator[Flaw]:
    """Yield the flaws of a message and its nested ones, in the order of the file."""
    known = descriptor.fields_by_name
    seen: dict[str, Node] = {}
    for field in node.fields:
        kind = known.get(field.name)
        if kind is None:
            yield _unknown(field, known, inside)
            continue
        yield from _repeated(field, kind, seen)
        if kind.message_type is None:
            yield from _scalar(field, kind)
        elif field.value is not None:
            found = f"'{field.name}' is a message, and has the value '{printable(field.value)}'"
            yield _flaw("TARN-2324", field, found, f"Expected {field.name} {{ … }}.")
        else:
            yield from _flaws(field, kind.message_type, f"'{field.name}'")


def _flaw(code: str, at: Node, found: str, right: str = "", next_step: str = "") -> Flaw:
    return Flaw(code, found, at.line, at.column, right, next_step)


def _unknown(field: Node, known: Iterable[str], inside: str) -> Flaw:
    found = f"{inside} has no field '{printable(field.name)}'"
    guess = nearest(field.name, known)
    step = f"Did you mean '{guess}'?" if guess else "Remove it, or see Triton's model_config.proto."
    return _flaw("TARN-2323", field, found, next_step=step)


def _repeated(field: Node, kind: Any, seen: dict[str, Node]) -> Iterator[Flaw]:
    """Yield a flaw if a field that may occur once, or an alternative of it, came before."""
    if _is_list(kind):
        return
    slot = kind.containing_oneof.name if kind.containing_oneof else field.name
    before = seen.setdefault(slot, field)
    if before is field:
        return
    if before.name == field.name:
        found = f"'{field.name}' is given twice; the first is in line {before.line}"
    else:
        found = f"'{field.name}' excludes '{before.name}' of line {before.line}"
    yield _flaw("TARN-2325", field, found, next_step="Remove one of the two.")


def _is_list(kind: Any) -> bool:
    """Return whether the field may be repeated."""
    if hasattr(kind, "is_repeated"):
        return bool(kind.is_repeated)
    return bool(kind.label == kind.LABEL_REPEATED)  # in older versions of protobuf


def _scalar(field: Node, kind: Any) -> Iterator[Flaw]:
    if field.value is None:
        found, right = f"'{field.name}' is a message here", f"Expected {field.name}: VALUE."
        yield _flaw("TARN-2324", field, found, right)
        return
    right = _right(field, field.value, kind)
    if right:
        mark = '"' if field.quoted else ""
        found = f"{field.name} = {mark}{printable(field.value)}{mark}"
        yield _flaw("TARN-2324", field, found, right)


def _right(field: Node, value: str, kind: Any) -> str:
    """Return what is expected instead of *value*; empty if it is valid."""
    if kind.enum_type is not None:
        return _right_name(field, value, kind.enum_type.values_by_name)
    match kind.cpp_type:
        case kind.CPPTYPE_STRING:
            return "" if field.quoted else f'Expected "{printable(value)}", in quotes.'
        case kind.CPPTYPE_BOOL:
            fine = not field.quoted and value in _TRUTH
            return "" if fine else "Expected true or false."
        case kind.CPPTYPE_INT32 | kind.CPPTYPE_INT64 | kind.CPPTYPE_UINT32 | kind.CPPTYPE_UINT64:
            return _right_number(field, kind)
    return "Expected a number." if field.quoted else ""


def _right_name(field: Node, value: str, names: Iterable[str]) -> str:
    if not field.quoted and (value in names or value.lstrip("-").isdecimal()):
        return ""
    guess = value if value in names else nearest(value, names)
    return f"Expected {guess}." if guess else f"Expected one of {', '.join(names)}."


def _right_number(field: Node, kind: Any) -> str:
    bits = 32 if kind.cpp_type in {kind.CPPTYPE_INT32, kind.CPPTYPE_UINT32} else 64
    least, most = _LEAST_MOST[bits]
    if kind.cpp_type in {kind.CPPTYPE_UINT32, kind.CPPTYPE_UINT64}:
        least, most = 0, most * 2 + 1
    number = field.whole(default=most + 1)
    fine = not field.quoted and least <= number <= most
    return "" if fine else f"Expected a whole number from {least} to {most}."
