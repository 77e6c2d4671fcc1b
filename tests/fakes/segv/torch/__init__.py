"""A torch whose import ends in a segmentation fault, after a last word on stderr."""

import os
import signal

os.write(2, b"terminate called after throwing an instance of 'c10::Error'\n")
os.kill(os.getpid(), signal.SIGSEGV)
