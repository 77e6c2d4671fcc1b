"""The Jupyter server extension: kernels that outlive the server, notebooks merged with their journals, the page's API.

Start-up: `__main__` and `app` start JupyterLab with our classes; `extension` adds the routes and background tasks.

Kernels: `kernels` is Jupyter's kernel manager for runtimes, `kernel_restarter` restarts those that died, `adoption` finds runtimes that outlived their server,
`sessions` and `kernelspecs` replace Jupyter's own, `kernel_activity` knows which kernels are busy.

A page's websocket to its kernel: `connection` accepts it, `page_stream` sends the journal to it, `attachment` describes
what ran before, `busy_replies` answers
in place of a busy kernel, `kernel_messages` encodes messages.

Notebook files: `merged_contents`, `contents` and `contents_handlers` open and save them, `edits` and `edit_handlers` take what
pages type, `history` serves versions, `autosave` saves outputs,
`recent_writes` keeps JupyterLab from asking about files that autosave wrote, `drive` serves the user's drive.

The page's API: `routes` has the table of all routes, `snapshot_service` and `machine_reader` read runtimes and cards, `page_socket` is the base of both websockets to pages,
`forms`, `secrets`, `colab` and `port_proxy` have the routes of one feature each.
"""
