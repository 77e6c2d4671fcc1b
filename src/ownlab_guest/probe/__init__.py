"""Probes: guest code that reads facts in another interpreter or in a child process. Each has `answer(arguments)`.

- `packages.py`: the interpreter, its packages, and which frameworks are installed; `ipykernel_check.py`: whether it can
  run kernels.
- `frameworks.py`: what one framework sees; `framework_report.py`: the record and the transcript that it needs.
- `verify_devices.py`: a matrix product on each device, compared with the CPU's.
- `cuda_libraries.py`: which CUDA libraries load.
- `nvml.py`: the driver and its cards through NVML; `nvml_cards.py`: the cards and their processes only, for frequent use;
  `nvml_sampler.py`: a stream of samples for `ownlab top`, with the counters of `gpm.py`.
"""
