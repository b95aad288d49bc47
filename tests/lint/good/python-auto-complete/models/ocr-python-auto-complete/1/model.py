import triton_python_backend_utils as pb


class TritonPythonModel:
    def execute(self, requests):
        return [self._answer(request) for request in requests]

    def _answer(self, request):
        data = pb.get_input_tensor_by_name(request, "IN").as_numpy()
        return pb.InferenceResponse([pb.Tensor("OUT", data)])

    @staticmethod
    def auto_complete_config(config):
        config.set_max_batch_size(0)
        config.add_input({"name": "IN", "data_type": "TYPE_FP32", "dims": [-1]})
        config.add_output({"name": "OUT", "data_type": "TYPE_FP32", "dims": [-1]})
        return config
