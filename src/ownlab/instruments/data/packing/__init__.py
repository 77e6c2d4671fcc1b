"""`ownlab data pack` and `verify`: tar shards with a binary index beside them. The work is done in `ownlab_guest/data/`."""
