"""How other processes talk to a supervisor.

- `endpoints`: where a runtime is reached: the URL of a Unix socket, or of a TCP port with keys.
- `bindings`: binds a supervisor's sockets to endpoints; `tcp_gate`: lets TCP clients in, by user and key.
- `control`: the control socket: one JSON line in, one JSON line out; its client and its server.
- `journal_protocol`, `journal_server`, `journal_client`: the journal socket (the "line"). A client that follows a runtime
  receives every record in order and sends messages to the kernel; earlier records are read from the journal on disk.

The servers run in supervisors: standard library and pyzmq only.
"""
