"""`ownlab fit`: predict whether a training step fits a card, before one is rented, and explain why it did not fit.

In the order of a command:

cli                         options; chooses between prediction, measurement, calibration and explanation
notebook                    `ownlab.fit()`: the same prediction for a model that lives in a kernel
pipeline                    request -> trace -> prediction -> cards, biggest batch, remedies, calibrations
guest_client                runs ownlab_guest/fit in the Python that has torch; its errors become ours
records                     Request, Trace, Fit, Measured: everything that `--json` prints
prediction                  replays the events of a trace: peak, parts, band, timeline, modules
torch_allocator             the model of torch's caching allocator (PYTORCH_ALLOC_CONF)
torch_allocator_expandable  the same with expandable segments
card_specs, card_fit        memory and rates of cards; whether a step fits, and its least time (roofline)
batch_search                the biggest batch, predicted or found by running
remedies                    what reduces memory, tried on the model
calibration(_run)           what CUDA itself takes on a card: built-in figures, stored calibrations, and measuring them
measurement                 `--measure`: the real step beside the prediction
oom, oom_traceback,         `--explain-oom`: the cause of an out-of-memory message, where it happened, and what to do
  oom_explanations, oom_fixes
terminal, measurement_terminal, oom_terminal, memory_chart    what users see
"""
