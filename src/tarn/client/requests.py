"""Requests as bytes, before an instance is chosen."""

import gzip
import zlib
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import quote, quote_plus

import attrs
from tritonclient.http import InferenceServerClient, Request
from tritonclient.utils import InferenceServerException

from tarn.client.affinity import sequence_headers
from tarn.client.targets import ServiceAddress
from tarn.errors import ConfigError

__all__ = ["Prepared", "inference", "plain", "plugged"]

_COMPRESS: Mapping[str | None, Callable[[bytes], bytes]] = {
    "gzip": gzip.compress,
    "deflate": zlib.compress,
}

Headers = Mapping[str, object] | None


@attrs.frozen
class Prepared:
    """One request for any instance."""

    method: str
    uri: str
    """Path and query, without a slash at the beginning."""
    headers: Mapping[str, object]
    body: bytes
    sequence: object = 0
    """The sequence id; requests of one sequence go to one instance. 0 or empty: none."""
    starts: bool = False
    ends: bool = False
    model: str = ""
    """The model of an inference; empty for other requests."""

    @property
    def in_sequence(self) -> bool:
        """Whether it belongs to a sequence."""
        return self.sequence not in (0, "")

    def head(self, target: ServiceAddress) -> bytes:
        """Return the head for *target*.

        Raises:
            ConfigError: A header contains a line break.
        """
        path = f"{target.path}/{self.uri}" if target.path else self.uri
        lines = [f"{self.method} /{path} HTTP/1.1\r\nHost: {target.address}"]
        if self.method == "POST":
            lines.append(f"Content-Length: {len(self.body)}")
        lines += [f"{name}: {value}" for name, value in self.headers.items()]
        text = "\r\n".join(lines)
        if text.count("\n") != len(lines):
            raise ConfigError("a header has a line break in it")
        return f"{text}\r\n\r\n".encode("latin-1")


def plugged(client: Any, headers: Headers) -> Headers:
    """Return *headers* as changed by the plugin that is registered with *client*, if any."""
    plugin = client.plugin()
    if plugin is None:
        return headers
    request = Request(dict(headers or {}))
    plugin(request)
    changed: Headers = request.headers
    return changed


def plain(
    method: str, uri: str, body: str | bytes, headers: Headers, query: Mapping[str, object] | None
) -> Prepared:
    """Return a request that tritonclient has already encoded.

    Raises:
        InferenceServerException: A header is not supported by this transport.
    """
    kept = dict(headers or {})
    if any(str(name).lower() == "transfer-encoding" for name in kept):
        raise InferenceServerException("the header Transfer-Encoding is not supported")
    content = body.encode() if isinstance(body, str) else body
    return Prepared(method, uri + _query(query), kept, content)


def inference(  # noqa: PLR0913, PLR0917 (the parameters of tritonclient's infer)
    model_name: str,
    inputs: list[Any],
    model_version: str = "",
    outputs: list[Any] | None = None,
    request_id: str = "",
    sequence_id: object = 0,
    sequence_start: bool = False,  # noqa: FBT001, FBT002
    sequence_end: bool = False,  # noqa: FBT001, FBT002
    priority: int = 0,
    timeout: int | None = None,
    headers: Headers = None,
    query_params: Mapping[str, object] | None = None,
    request_compression_algorithm: str | None = None,
    response_compression_algorithm: str | None = None,
    parameters: Mapping[str, object] | None = None,
) -> Prepared:
    """Return an inference request; the parameters are those of tritonclient's ``infer``."""
    if not isinstance(model_version, str):
        raise InferenceServerException("model version must be a string")
    body, json_size = InferenceServerClient.generate_request_body(
        inputs,
        outputs=outputs,
        request_id=request_id,
        sequence_id=sequence_id,
        sequence_start=sequence_start,
        sequence_end=sequence_end,
        priority=priority,
        timeout=timeout,
        parameters=parameters,
    )
    own = sequence_headers(sequence_id, headers or {})
    if request_compression_algorithm in _COMPRESS:
        own["Content-Encoding"] = request_compression_algorithm
        body = _COMPRESS[request_compression_algorithm](body)
    if response_compression_algorithm in _COMPRESS:
        own["Accept-Encoding"] = response_compression_algorithm
    if json_size is not None:
        own["Inference-Header-Content-Length"] = json_size
    version = f"/versions/{model_version}" if model_version else ""
    request = plain(
        "POST", f"v2/models/{quote(model_name)}{version}/infer", body, own, query_params
    )
    if sequence_id in (0, ""):
        return attrs.evolve(request, model=model_name)
    return attrs.evolve(
        request,
        sequence=sequence_id,
        starts=sequence_start,
        ends=sequence_end,
        model=model_name,
    )


def _query(given: Mapping[str, object] | None) -> str:
    pairs = [
        f"{quote_plus(name)}={quote_plus(str(item))}"
        for name, value in (given or {}).items()
        for item in (value if isinstance(value, list) else [value])
    ]
    return "?" + "&".join(pairs) if pairs else ""
