"""Lets vLLM take weights from files that Tidemill writes.

    vllm serve MODEL --weight-transfer-config '{"backend": "tidemill"}' \\
        --worker-extension-cls tidemill_vllm.files.WorkerExtension ...

vLLM loads the plugin by its entry point. Each rank reads the same safetensors file; the model's own
loader keeps the part that belongs to the rank.
"""


def register() -> None:
    """Called by vLLM in every process."""
    from vllm.distributed.weight_transfer import WeightTransferEngineFactory

    try:
        WeightTransferEngineFactory.register_engine("tidemill", "tidemill_vllm.engine", "FileWeightEngine")
    except ValueError:
        pass  # registered in this process already
