"""The Jupyter server extension: routes read, call, write; kernels that outlive the server."""
