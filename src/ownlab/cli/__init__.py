"""The command line: one file per command, which parses, calls and shows. `main` turns errors into exit codes."""
