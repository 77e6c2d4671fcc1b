"""Python environments for runtimes.

`registry` lists, adds and removes them (environments.json); `active` adds the one that is active where the lab starts.
Environments that ownlab creates: `presets` says what is in them, `torch_build` which torch suits this machine, `uv` runs uv,
`plan` resolves and sizes a request, `builder` builds, `builds` keeps the state of each build on disk and starts, cancels and
lists them. A build is a process of its own: it outlives pages and servers. `records` is what pages and commands see.
"""
