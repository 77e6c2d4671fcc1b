"""A lab as seen from outside the server: `ownlab up`, `down`, `open` and `status`. Does not import Jupyter.

labs.py          the record and the locks of a lab (a folder that is served)
up.py            checks before a server is started, and waiting for it
watchdog.py      starts the server, and starts it again when it crashes
crash_report.py  why a server ended, from its log and its exit code
down.py          stops labs and runtimes
history.py       restores versions of notebooks, through a lab that serves them
http_client.py   requests to a lab's server
ports.py         the port of a lab
network_host.py  the name, address and certificate of a lab that other computers reach
ssh_tunnel.py    a connection to another machine over the system's ssh
remote_lab.py    `ownlab connect`: the lab of another machine through such a connection
browser.py       opens the browser without the token on a command line
overview.py      labs and runtimes as the command line shows them
records.py       the JSON documents of these commands
examples/        notebooks that come with ownlab, for the start page
"""
