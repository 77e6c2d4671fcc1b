"""The relay of a runtime on a node of a cluster: a process beside the lab's server that stands for it.

To everybody here it looks like a supervisor: the same folder, control socket, journal line and Jupyter channels. The kernel, its
supervisor and the journal are in a job on the node. The relay may die and be started again: it continues after the last record that it has.

- `process`: the relay itself: what it does when the job, the node or somebody here says something.
- `event_loop`: waits for sockets, signals and timers, and dispatches them.
- `job_watcher`: submits the job, asks the engine for its state, and cancels it, in threads.
- `job_files`: the folder of the job, which all machines share: what the node reads, and the address that it writes.
- `node`: the job on the node.
- `node_line`: the connection to the node: follows the journal from any position, sends messages and commands.
- `node_figures`: what is known of the node: its cards, what is used there, and when a limit ends it.
- `mirror`: the journal here, with the numbers that the node gave.
- `local_channels`: Jupyter's channels and the journal line for clients here.
- `commands`: the commands of the control socket.
"""
