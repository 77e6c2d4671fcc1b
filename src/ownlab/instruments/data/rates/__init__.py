"""`ownlab data bench`: whether the disk, the file system, the decoder or the cores limit reading, and what would help."""
