"""Answers what it was sent, a quarter of a second later."""

import threading

import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    """The class that Triton's Python backend looks for."""

    def execute(self, requests: list) -> list:
        """Answer each request."""
        return [self._answer(request) for request in requests]

    def _answer(self, request: object) -> object:
        threading.Event().wait(0.25)
        values = pb_utils.get_input_tensor_by_name(request, "IN").as_numpy()
        return pb_utils.InferenceResponse([pb_utils.Tensor("OUT", values)])
