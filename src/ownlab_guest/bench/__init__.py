"""The benchmark that runs in the user's Python (see ownlab.instruments.bench for the other side).

run.py                reads a request (request.py), prints one event per line
plan.py               the tests of each profile, with names that never change
device.py             the device under test: torch, numpy, memory that may be used; card_state.py: clocks and throttling
timing.py             clocks, batches, percentiles, intervals
torch_operations.py   matrix products, memory and copies, kernel launches; numpy_operations.py: the same on the CPU
model_steps.py        training steps and inference of the networks in models.py, and single layers
disk.py               sequential and random access without the page cache
image_loading.py      decoding of photos by worker processes
frameworks.py         the same product in TensorFlow and JAX

Standard library only, and old Python versions: torch, numpy and others are imported if they are installed.
"""
