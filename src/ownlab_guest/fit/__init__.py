"""The guest of `ownlab fit`: traces and measures training steps in the user's own Python, which has torch.

trace                   entry: trace a step without a card
  model_loader          the user's build(), or a transformers configuration
  training_step         the step itself, the same for traces and measurements; optimizers
  tensor_values         values that a program reads out of tensors without data: known, or guessed
  cuda_semantics        what CUDA does differently from the CPU; attention chooses its kernels
  dispatch_trace        records allocations and frees of every operation (event_stream holds them)
  workspaces            memory that operations take besides their results (convolution_workspaces, recurrent_layers)
  flop_count            FLOPs of one operation
live_model              the same for a model that lives in a notebook
kv_cache                entry: the KV cache of decoding, predicted and measured
measure                 entry: run the real step
  device                the card or processor: its properties, memory of this process, timing
  peak_memory           peaks by phase, and what holds them (peak_snapshot reads the allocator's history)
calibrate               entry: what CUDA itself takes; calibration_models are the small models to check
request, errors         the request of the host; errors with the line of the user's code, and the deadline
"""
