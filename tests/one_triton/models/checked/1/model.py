"""Adds up a sequence and fails where the sum is not the one that its caller expects.

So a load client that looks at no answer still counts each wrong sum as an error. The last step is
not checked: NVIDIA's load client ends a sequence early when its time is over.
"""

import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def initialize(self, args):
        self.sums = {}

    def execute(self, requests):
        return [self._step(request) for request in requests]

    def _step(self, request):
        key, expected = self._scalar(request, "CORRID"), self._scalar(request, "EXPECTED")
        before = 0.0 if self._scalar(request, "START") else self.sums.get(key, float("nan"))
        self.sums[key] = got = before + self._scalar(request, "IN")
        if got != expected and not self._scalar(request, "END"):
            problem = pb_utils.TritonError(f"sequence {key}: {got:g} instead of {expected:g}")
            return pb_utils.InferenceResponse(error=problem)
        return pb_utils.InferenceResponse([pb_utils.Tensor("OUT", np.array([[got]], np.float32))])

    @staticmethod
    def _scalar(request, name):
        return pb_utils.get_input_tensor_by_name(request, name).as_numpy().ravel().tolist()[0]
