"""What a notebook may call: runs in the kernel."""
