"""`ownlab data`: get data, unpack it, look at it, pack it, keep it near, and measure how fast it is read.

Each command is a folder of its own; none imports another's cli:

- `cli.py`: the command group; a table of the commands, each imported when it is called.
- `download/`: `get`. Sources (http, Hugging Face, Google Drive, Kaggle, object storage, rclone) resolve to files; one segment downloader fetches all of them.
- `archives/`: `unpack`. Recognises archives by content, and extracts them safely and resumably.
- `staging/`: `stage` and `sets`. Verified copies on the local scratch disk, and the list of data sets of this machine.
- `inspection/`: `inspect`. What a folder or a packed data set contains, and what is broken in it.
- `packing/`: `pack` and `verify`. Tar shards with a binary index beside them.
- `rates/`: `bench`. Whether the disk, the file system, the decoder or the cores limit reading.
"""
