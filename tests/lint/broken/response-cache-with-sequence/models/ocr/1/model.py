import triton_python_backend_utils as pb


class TritonPythonModel:
    def execute(self, requests):
        return [self._answer(request) for request in requests]

    def _answer(self, request):
        data = pb.get_input_tensor_by_name(request, "IN").as_numpy()
        return pb.InferenceResponse([pb.Tensor("OUT", data)])
