"""Rebuilds another machine from pasted text: reports of any kind, in any order, and error messages.

In reading order:

- `reader.py`: `read_paste()` makes a `Case` of a text, and lists what else would be worth pasting.
- `sections.py`: which lines belong to which kind of report; `reports.py`: the table of kinds, and the reports of one machine.
- The readers of reports: `nvidia_smi_table.py` (the plain table and -L), `nvidia_smi_log.py` (-q), `nvidia_smi_csv.py`,
  `vendor_tools.py` (nvidia-smi's XML, npu-smi, xpu-smi, AMD's tools), `system_tools.py` (nvcc, lspci, lscpu,
  torch.__config__), `packages.py` (pip, conda), `json_documents.py` (saved machines, AMD's JSON), and
  `collect_env_lines.py` and `collect_env.py` (torch.utils.collect_env and its relatives).
- What belongs to no report: `line_wraps.py` joins broken lines, `messages.py` keeps the messages of programs,
  `facts_in_prose.py` reads versions, cards and variables that the text mentions.
- `merge.py`: one machine of several reports.
"""
