"""Runtimes: what can be started, how it is started and stopped, and what it uses.

A runtime is a kernel with its supervisor (`lab.supervisor`) and its leases (`lab.store`). In the order of use:

- `cards`: the devices that can be leased, and who uses them without a lease.
- `runtime_types`: the types that this machine can start; `kernelspecs`: the same as kernelspecs on disk;
  `accelerator`: the type that fits what a notebook asks for on Colab.
- `launch_plan`: plan.json, the supervisor's instructions; `start`: write it and start the supervisor;
  `kernel_variables`, `visible_devices`: environment variables of the kernel.
- `provisioner`: how jupyter_client starts runtimes; `direct_launch`: for clients that run a kernelspec's command.
- `end_request`: the wish that a runtime on a node of a cluster ends, for its next relay.
- `state`: read plan.json and state.json of running runtimes; `operations`: find, stop, extend and end them.
- `journals`: the journals of runtimes as a server reads them.
- `live_usage`, `process_owners`: memory, CPU and card time by runtime; `usage_report`: by week, user and notebook.
- `runtimes_on_nodes`: the same of runtimes on nodes of a cluster; `node_usage`: the process that measures there.
- `snapshot`: everything that the panel and `ownlab runtimes` show, as `records`.
- `content_files`: uploads and downloads of Colab-mode runtimes; `drive`: the user's drive as the host sees it.
"""
