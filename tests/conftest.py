"""For all tests: signals as a terminal leaves them."""

from __future__ import annotations

import signal

# A shell starts what runs in the background with these ignored, and children inherit that: none of ours could be interrupted.
for _signal in (signal.SIGINT, signal.SIGQUIT, signal.SIGHUP):
    if signal.getsignal(_signal) is signal.SIG_IGN:
        signal.signal(_signal, signal.default_int_handler if _signal == signal.SIGINT else signal.SIG_DFL)
