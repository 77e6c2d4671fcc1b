"""Commands and packages in kernels, shared by plain kernels and Colab mode.

- `terminal`: runs a command in a terminal of its own and answers its questions. `stdin_wait`: detects that it waits for input.
- `system_commands`: `!command` in a plain kernel.
- `apt`, `pip_options`: what installers need in notebooks. `command_hints`: how to get a program that is missing.
- `notebook_folder`: where the notebook is, and a hint for files that are beside it and not in /content.
- `packages`: reports which packages a cell installed, and installs them again in another runtime.
- `stale_modules`: finds packages that were imported before a cell changed them.
"""
