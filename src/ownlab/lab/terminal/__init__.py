"""The lab's commands in the terminal: what `runtimes`, `run`, `up`, `config`, `form` and `secrets` print.

`runtimes`: runtimes, cards, usage, runtime types, environments. `labs`: running labs and their addresses. `run`: the
progress of `ownlab run`. `runtime_log`: `ownlab runtimes log`. `config`: settings, the store, secrets. `form`: the
forms of a notebook.
"""
