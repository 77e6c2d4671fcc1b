"""A stand-in for a kernel in the lease storm: it locks a file for each card that it sees, and reports a conflict."""

import ctypes
import fcntl
import os
import signal
import sys
import time

folder, seconds, escapes = sys.argv[1], float(sys.argv[2]), sys.argv[3] == "escapes"

ctypes.CDLL(None).prctl(1, signal.SIGKILL, 0, 0, 0)  # as launch.py does: it ends with its supervisor
if os.getppid() != int(os.environ["JPY_PARENT_PID"]):
    os._exit(1)
lock = int(os.environ["OWNLAB_LOCK"])
os.set_inheritable(lock, False)

cards = os.environ["CUDA_VISIBLE_DEVICES"].split(",")
witnesses = []
for card in cards:
    witness = os.open(os.path.join(folder, "card-" + card), os.O_RDWR | os.O_CREAT)
    try:
        fcntl.flock(witness, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        open(os.path.join(folder, "double-booked-{}-{}".format(card, os.environ["OWNLAB_RUNTIME"])), "w").close()
    witnesses.append(witness)
open(os.path.join(folder, "ran-" + os.environ["OWNLAB_RUNTIME"]), "w").close()

if escapes and os.fork() == 0:
    # Holds the witnesses as well, and only the environment shows whose it is.
    os.close(lock)
    os.setsid()
    if os.fork() == 0:
        time.sleep(600)
    os._exit(0)
time.sleep(seconds)
