"""What the fake Triton makes of an inference: its inputs come back as outputs. Stdlib only."""

import json
import struct

__all__ = ["BadRequest", "echo"]

_CODES = {
    "BOOL": "?",
    "UINT8": "B",
    "UINT16": "H",
    "UINT32": "I",
    "UINT64": "Q",
    "INT8": "b",
    "INT16": "h",
    "INT32": "i",
    "INT64": "q",
    "FP16": "e",
    "FP32": "f",
    "FP64": "d",
}

_Json = dict[str, object]


class BadRequest(ValueError):  # noqa: N818 (the client's fault, answered with 400)
    """The request cannot be meant; the text is the answer's ``error``."""

    def __init__(self, status: int, text: str) -> None:
        self.status = status
        super().__init__(text)


def echo(model: str, body: bytes, json_length: int | None) -> tuple[bytes, int | None]:
    """Return the body of the answer, and the length of its JSON part when binary data follows.

    Each input comes back as an output of the same type, shape and data: ``IN`` as ``OUT``,
    ``INPUT0`` as ``OUTPUT0``, any other under its own name. Binary data
    (``Inference-Header-Content-Length``) is understood, and given when the request asks for it.

    Raises:
        BadRequest: *body* is not an inference request.
    """
    head, tail = (body, b"") if json_length is None else (body[:json_length], body[json_length:])
    asked, inputs = _parsed(head)
    outputs, blobs = [], []
    try:
        for tensor in inputs:
            raw = _raw_size(tensor)
            blob, tail = tail[:raw], tail[raw:]
            output, blob = _answer(asked, tensor, blob if raw else None)
            outputs.append(output)
            blobs.append(blob)
    except (KeyError, TypeError, ValueError, AttributeError, struct.error) as error:
        raise BadRequest(400, f"an input cannot be read: {error!r}") from error
    answer: _Json = {"model_name": model, "model_version": "1", "outputs": outputs}
    if "id" in asked:
        answer = {"id": asked["id"], **answer}
    text = json.dumps(answer, separators=(",", ":")).encode()
    data = b"".join(blobs)
    return text + data, len(text) if data else None


def _parsed(head: bytes) -> tuple[_Json, list[_Json]]:
    try:
        asked = json.loads(head)
    except ValueError as error:
        text = f"failed to parse the request JSON buffer: {error}"
        raise BadRequest(500, text) from error  # 500: so does Triton 2.51
    inputs = asked.get("inputs") if isinstance(asked, dict) else None
    if not isinstance(inputs, list):
        raise BadRequest(500, "Unable to parse 'inputs': not an array")
    return asked, inputs


def _answer(asked: _Json, tensor: _Json, blob: bytes | None) -> tuple[_Json, bytes]:
    name, datatype = str(tensor["name"]), str(tensor["datatype"])
    if name.startswith("IN"):
        name = name.replace("INPUT", "OUTPUT", 1) if name.startswith("INPUT") else "OUT" + name[2:]
    output: _Json = {"name": name, "datatype": datatype, "shape": tensor["shape"]}
    if _wants_binary(asked, name):
        data = blob if blob is not None else _encode(datatype, _flat(tensor["data"]))
        output["parameters"] = {"binary_data_size": len(data)}
        return output, data
    output["data"] = _flat(tensor["data"]) if blob is None else _decode(datatype, blob)
    return output, b""


def _wants_binary(asked: _Json, name: str) -> bool:
    for output in asked.get("outputs") or ():  # type: ignore[attr-defined]
        if output["name"] == name:
            return bool(output.get("parameters", {}).get("binary_data", False))
    parameters = asked.get("parameters") or {}
    return isinstance(parameters, dict) and bool(parameters.get("binary_data_output", False))


def _raw_size(tensor: _Json) -> int:
    parameters = tensor.get("parameters") or {}
    return int(parameters.get("binary_data_size", 0)) if isinstance(parameters, dict) else 0


def _flat(data: object) -> list[object]:
    if not isinstance(data, list):
        return [data]
    return [leaf for part in data for leaf in _flat(part)]


def _encode(datatype: str, values: list[object]) -> bytes:
    if datatype == "BYTES":
        texts = [str(value).encode() for value in values]
        return b"".join(struct.pack("<I", len(text)) + text for text in texts)
    return struct.pack(f"<{len(values)}{_CODES[datatype]}", *values)


def _decode(datatype: str, blob: bytes) -> list[object]:
    if datatype != "BYTES":
        code = _CODES[datatype]
        return list(struct.unpack(f"<{len(blob) // struct.calcsize(code)}{code}", blob))
    texts: list[object] = []
    while blob:
        (size,) = struct.unpack_from("<I", blob)
        texts.append(blob[4 : 4 + size].decode())
        blob = blob[4 + size :]
    return texts
