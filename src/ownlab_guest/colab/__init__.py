"""Colab mode: what turns a kernel into one of Colab's.

- `kernel_setup`: the entry point, called before ipykernel is imported.
- `content_folder`: a private /content for the runtime, with `mount_namespace` (Linux mounts of the process).
- `drive_mounts`: google.colab.drive: a folder of the user, or a remote through `rclone`.
- `site/`: added to sys.path; contains only the package google.colab, the stand-in for Colab's own.
"""
