"""Answers what it was sent, after 5 ms; falls sick with the first request that asks for it.

The request's parameter ``sick`` is how: ``exits``, ``hangs``, ``raises``, ``slow``, or ``picky``
(raises for every value but 0: what callers send is wrong).
"""

import json
import os
import time

import triton_python_backend_utils as pb_utils

WELL_S, SLOW_S = 0.005, 0.05


class TritonPythonModel:
    def initialize(self, _args):
        self.sick = "no"

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
        values = pb_utils.get_input_tensor_by_name(request, "IN").as_numpy()
        if self.sick == "picky" and values.any():
            raise ValueError("IN: 0 is the only pixel there is")
        time.sleep(SLOW_S if self.sick == "slow" else WELL_S)  # noqa: TID251 (a model computes)
        return pb_utils.InferenceResponse([pb_utils.Tensor("OUT", values)])
