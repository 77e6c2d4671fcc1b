"""What NCCL chose between the GPUs of a run, and what is wrong with it: `ownlab why --nccl LOG`.

- `log_reader.py` reads a log of NCCL_DEBUG=INFO, of any length, into `records.NcclLog`: versions, ranks, connections, failures.
- `rule.py` is the base class of a rule about it; `failures.py`, `transports.py` and `timeouts.py` hold the rules.
- `explanation.py` runs them, and says in one sentence what connects the ranks.
"""
