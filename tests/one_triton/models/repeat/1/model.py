"""Answers a request with as many responses as it has numbers, one number each; decoupled."""

import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        for request in requests:
            sender = request.get_response_sender()
            numbers = pb_utils.get_input_tensor_by_name(request, "IN").as_numpy()
            for number in numbers:
                one = pb_utils.Tensor("OUT", np.array([number], np.int32))
                sender.send(pb_utils.InferenceResponse([one]))
            sender.send(flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
