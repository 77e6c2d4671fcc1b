"""Where the time of a trace of torch.profiler went: `ownlab why --trace trace.json[.gz]`.

- `event_stream.py` reads the events of a trace of any size, one at a time; `intervals.py` keeps times compactly.
- `trace_reader.py` sorts them into steps, GPU work and what the host did; `timeline.py` makes a mean step of them.
- `rules.py` holds the causes, `explanation.py` runs them, `terminal.py` shows the longest kernels.
"""
