"""`ownlab data inspect`: what a data set contains, and what is broken in it. The work is done in `ownlab_guest/data/`."""
