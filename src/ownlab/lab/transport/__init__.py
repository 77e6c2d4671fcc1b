"""How other processes talk to a supervisor.

- `control`: the control socket: one JSON line in, one JSON line out; its client and its server.
- `journal_protocol`, `journal_server`, `journal_client`: the journal socket (the "line"). A client that follows a runtime
  receives every record in order and sends messages to the kernel; earlier records are read from the journal on disk.

The servers run in supervisors: standard library and pyzmq only.
"""
