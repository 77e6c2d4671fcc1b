"""Code that runs in the process of a notebook's kernel.

launch          starts ipykernel: sys.path, signals, the runtime's lock, output without loss
activation      PATH and other variables as the activation of the kernel's environment sets them
output_flush    lets out what earlier cells printed, before the next cell can end the process
fork_pipe       what forked workers print, on a private socket
debug_adapter   debugpy's adapter, closed to other users
startup         start-up scripts of the lab and of notebooks
on_end          `ownlab.on_end`: functions to call before the runtime ends
magics          `%fit`, `%doctor`, `%%train` and `%%why`
why             `%%why` and `ownlab.why`
fit, watch      `ownlab.fit` and `ownlab.watch`
variables       the variables of a notebook, for the page's inspector
host_client     starts ownlab in its own environment, where the kernel's environment has none
host_records    its records and errors, as objects of this process
"""
