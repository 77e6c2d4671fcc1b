"""The supervisor: the process that owns a kernel. It holds the lease, forwards messages, enforces limits and cleans up.

One runtime is two processes beside its kernel, in this order:

- `__main__`: `python -m ownlab.lab.supervisor PLAN_FILE`.
- `keeper`: the first process. It locks the runtime, forks the supervisor, waits for it, and releases cards and files.
- `bootstrap`: the supervisor's start: enter the queue, lease cards, start the kernel, import the rest meanwhile.
- `kernel_process`: starts and signals the kernel, and finds out why it died; `memory_events`: whether memory ran out;
  `process_tree`: descendants, CPU time, subreaper.
- `event_loop`: poll sockets, signals and timers, and dispatch them.
- `lifecycle`: all decisions: waiting, starting, dying, restarting, ending.
- `channels`: the five Jupyter channels between clients and kernel; `message_inspector`: what it reads of the messages;
  `output_publisher`: iopub, with a bound on what waits for a client that does not read; `connection_monitor`: whether
  everything from a kernel that died was received.
- `script_channels`: what stands in for them if the runtime runs a script.
- `journal_recorder`: numbers each message and writes it to the journal before it is forwarded.
- `limit_monitor`: idle, session and weekly limits; `card_probe`: reads the cards in a short child process.
- `usage_child`: in a job, starts the process that measures what the runtime uses there, while somebody looks.
- `state_writer`: state.json, the runtime's row and its usage in the store, and the log.
- `control_commands`: the commands of the control socket (`lab.transport.control`).

A supervisor runs beside every kernel, so it imports only the standard library and pyzmq (tests/test_architecture.py).
"""
