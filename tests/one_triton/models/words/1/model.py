"""Returns each text in capital letters."""

import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        return [self._capitals(request) for request in requests]

    @staticmethod
    def _capitals(request):
        words = pb_utils.get_input_tensor_by_name(request, "IN").as_numpy()
        capitals = np.array([word.upper() for word in words.ravel()], object).reshape(words.shape)
        return pb_utils.InferenceResponse([pb_utils.Tensor("OUT", capitals)])
