"""Leads to the guest package. A process that a kernel has spawned has the kernel's sys.path, and so this folder, but no ownlab_guest."""

import os

__path__ = [os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))]
