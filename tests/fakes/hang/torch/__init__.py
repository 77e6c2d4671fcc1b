"""A torch whose import never ends."""

import sys
import threading

sys.stderr.write("waiting for the lock of an extension build\n")
sys.stderr.flush()
threading.Event().wait()
