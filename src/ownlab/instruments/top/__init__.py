"""`ownlab top`: what the GPUs and the host do over time.

cli.py               the command: parses options, chooses a source and an output
records.py           samples and verdicts
sampler.py           samples of this machine: nvml_child.py (cards), host_sampler.py, process_sampler.py
source.py            sources of samples, their timing, and the filter for --cards
recorded_cards.py    recorded cards in place of this machine's own
metrics.py           metrics of a card in one sample, and means over time
verdict_rules.py     the rules of verdicts.toml; verdict_window.py applies them to the last samples of each card
fields.py            fields by name, as in nvidia-smi; recording.py writes and reads files, csv_reader.py parses rows
report.py            the report on a recording; report_terminal.py and chart.py show it
formatting.py        values and process rows for terminal.py (the table of --once) and screen/ (the full screen)
prometheus.py        metrics for Prometheus; metrics_server.py serves them
notebook.py          `ownlab.watch`
"""
