"""Texts in capital letters: a model so small that a fleet of it starts in seconds."""

import numpy as np
import triton_python_backend_utils as backend


class TritonPythonModel:
    """What Triton calls."""

    def execute(self, requests: list) -> list:
        """Answer each request with its texts in capital letters."""
        return [self._answer(request) for request in requests]

    def _answer(self, request: "backend.InferenceRequest") -> "backend.InferenceResponse":
        texts = backend.get_input_tensor_by_name(request, "TEXT").as_numpy()
        loud = np.array([text.decode().upper().encode() for text in texts], dtype=object)
        return backend.InferenceResponse([backend.Tensor("LOUD", loud)])
