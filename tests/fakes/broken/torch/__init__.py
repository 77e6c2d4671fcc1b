"""A torch that misses one of its libraries."""

raise ImportError("libcudnn.so.8: cannot open shared object file: No such file or directory")
