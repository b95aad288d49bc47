"""Answers what it was sent, after the request's parameter ``delay`` (seconds)."""

import json
import time

import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        return [self._answer(request) for request in requests]

    def _answer(self, request):
        parameters = json.loads(request.parameters() or "{}")
        delay_s = float(parameters.get("delay", 0))
        if delay_s:
            print(f"echo waits {delay_s:g} s", flush=True)  # noqa: T201 (tests look for it)
            time.sleep(delay_s)  # noqa: TID251 (a slow model)
        values = pb_utils.get_input_tensor_by_name(request, "IN").as_numpy()
        return pb_utils.InferenceResponse([pb_utils.Tensor("OUT", values)])
