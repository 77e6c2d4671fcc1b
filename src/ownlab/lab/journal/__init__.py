"""What kernels said, kept on disk by their supervisors, and merged into notebooks."""
