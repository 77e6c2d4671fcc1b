"""`ownlab data get`: downloads that survive interruptions, in parallel segments, with checksums and a manifest.

sources.py (a table: which source resolves an argument) -> records.py (RemoteFile) -> downloader.py (workers) ->
transfer.py (one file) -> part_file.py (what has arrived, durable) -> manifest.py (what is here, and from where).
"""
