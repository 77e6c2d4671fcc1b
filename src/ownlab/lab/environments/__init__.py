"""Python environments for runtimes. `registry` lists, adds and removes them (environments.json)."""
