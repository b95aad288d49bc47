"""Answers what it was sent; falls sick for good with the first request that asks for it.

The request's parameter ``sick`` is how: ``exits``, ``hangs``, ``raises`` or ``slow``.
"""

import json
import os
import time

import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def initialize(self, _args):
        self.sick = ""

    def execute(self, requests):
        return [self._answer(request) for request in requests]

    def _answer(self, request):
        parameters = json.loads(request.parameters() or "{}")
        self.sick = parameters.get("sick", self.sick)
        if self.sick == "exits":
            os._exit(3)
        while self.sick == "hangs":
            time.sleep(60)  # noqa: TID251 (a model that hangs)
        if self.sick == "raises":
            raise RuntimeError("CUDA error: device-side assert triggered")
        if self.sick == "slow":
            time.sleep(0.05)  # noqa: TID251 (a slow model)
        values = pb_utils.get_input_tensor_by_name(request, "IN").as_numpy()
        return pb_utils.InferenceResponse([pb_utils.Tensor("OUT", values)])
