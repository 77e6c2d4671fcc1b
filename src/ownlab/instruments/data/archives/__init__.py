"""`ownlab data unpack`: archives into a folder, safely, and resumable.

volumes.py (a split archive as one file) -> recognition.py (what it is, by its content) -> reader.py, zip_reader.py, tar_reader.py
(members) -> member_path.py (names that stay inside) -> extraction.py (files, a journal of them), limits.py. member_stream.py hands the
members to packing as a tar instead.
"""
