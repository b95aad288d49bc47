"""tritonclient's methods over our transport, and the client of exactly one instance."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

from tritonclient.http import InferenceServerClient, InferResult

from tarn.client.failing import raise_if_error, single
from tarn.client.http_connection import ClientConnection, HttpResponse, WireError
from tarn.client.pool import InstancePool, PoolMember
from tarn.client.requests import Prepared, inference, plain, plugged
from tarn.client.targets import ServiceAddress

__all__ = ["SingleClient", "TritonAdapter"]


class TritonAdapter(InferenceServerClient):  # type: ignore[misc] # tritonclient has no types
    """tritonclient's methods, over a transport of ours."""

    def __init__(self) -> None:
        # Not its own constructor, which makes the transport that is replaced here.
        super(InferenceServerClient, self).__init__()
        self._verbose = False

    def __del__(self) -> None:
        """Do nothing: what is open has an owner."""

    def _send(self, request: Prepared) -> HttpResponse:
        raise NotImplementedError

    def _get(self, request_uri: str, headers: Any, query_params: Any) -> HttpResponse:
        return self._send(plain("GET", request_uri, b"", plugged(self, headers), query_params))

    def _post(
        self, request_uri: str, request_body: Any, headers: Any, query_params: Any
    ) -> HttpResponse:
        return self._send(
            plain("POST", request_uri, request_body, plugged(self, headers), query_params)
        )


class SingleClient(TritonAdapter):
    """tritonclient's client of exactly one instance: nothing is balanced, nothing repeated."""

    def __init__(
        self,
        slot: PoolMember,
        fleet: InstancePool,
        connect: Callable[[ServiceAddress], AbstractContextManager[ClientConnection]],
    ) -> None:
        super().__init__()
        self._slot, self._fleet, self._connect = slot, fleet, connect

    @property
    def target(self) -> ServiceAddress:
        """The instance."""
        return self._slot.target

    def close(self) -> None:
        """Do nothing: each request has a connection of its own."""

    def infer(self, model_name: str, inputs: list[Any], **named: Any) -> Any:
        """Infer on this instance; the parameters are tritonclient's."""
        named["headers"] = plugged(self, named.get("headers"))
        answer = self._send(inference(model_name, inputs, **named))
        raise_if_error(answer)
        return InferResult(answer, verbose=False)

    def _send(self, request: Prepared) -> HttpResponse:
        self._fleet.take_this(self._slot)
        try:
            with self._connect(self.target) as connection:
                return connection.ask(request.head(self.target), request.body)
        except WireError as error:
            raise single(self.target, error) from error
        finally:
            self._fleet.give_back(self._slot, None, answered=False)
