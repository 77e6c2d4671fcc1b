"""Colab mode: what turns a kernel into one of Colab's.

- `kernel_setup`: the entry point, called before ipykernel is imported.
- `content_folder`: a private /content for the runtime, with `mount_namespace` (Linux mounts of the process).
- `system_overlay`: a private copy of /usr, /etc, /var and /opt for root; `opt_folder`: Colab's path of nvidia-smi.
- `file_requests`: copies what a cell is about to read from the notebook's folder into /content; `notebook_files` are the copies,
  `named_files` finds names in cells and commands.
- `drive_mounts`: google.colab.drive: a folder of the user, or a remote through `rclone`.
- `site/`: added to sys.path; contains only the package google.colab, the stand-in for Colab's own.
"""
