"""Why a training script is slow: `ownlab why python train.py`.

In the order in which the command uses them:

- `cli.py` parses the command.
- `script_run.py` starts the user's command with the guest's measurement in it (`ownlab_guest/why`), and waits for its end.
- `collection.py` reads what the guest has written into `records.Evidence`, with the statements of the user's code that matter.
- `step_model.py` makes a mean step of it, and predicts the step without a part of it.
- `rule.py` is the base class of a rule, `rules/` holds the rules, one class each; `code_change.py` writes their small diffs.
- `explanation.py` runs the rules, and makes one sentence of the first finding; `lanes.py` draws a typical step.
- `trials/` measures changes instead of predicting them (`--try`).
- `attach/` explains a process that already runs, `trace/` a trace of torch.profiler, `nccl/` a log of NCCL, instead of a run; `causes.py` lists the rules of all kinds.
- `terminal.py` and `step_chart.py` show the explanation.
"""
