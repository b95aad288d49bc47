"""Adds up what each sequence sends: an answer is right only where all its steps were seen.

`WHO` is the process that answered. It tells a test which instance that was.
The key comes from the request itself: a control input of this back end cannot hold text.
"""

import os

import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def initialize(self, args):
        self.sums = {}
        self.steps = {}

    def execute(self, requests):
        return [self._step(request) for request in requests]

    def _step(self, request):
        value = float(self._scalar(request, "IN"))
        key = request.correlation_id()
        if self._scalar(request, "START"):
            self.sums[key], self.steps[key] = 0.0, 0
        elif key not in self.sums:
            problem = pb_utils.TritonError(f"sequence {key!r} is unknown to process {os.getpid()}")
            return pb_utils.InferenceResponse(error=problem)
        self.sums[key] += value
        self.steps[key] += 1
        answer = {
            "OUT": np.array([[self.sums[key]]], np.float32),
            "STEPS": np.array([[self.steps[key]]], np.int32),
            "WHO": np.array([[os.getpid()]], np.int64),
        }
        if self._scalar(request, "END"):
            del self.sums[key], self.steps[key]
        return pb_utils.InferenceResponse(
            [pb_utils.Tensor(name, array) for name, array in answer.items()]
        )

    @staticmethod
    def _scalar(request, name):
        return pb_utils.get_input_tensor_by_name(request, name).as_numpy().ravel().tolist()[0]
