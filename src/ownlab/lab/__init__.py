"""The lab: runtimes, their journals, notebooks, the server and its commands."""
