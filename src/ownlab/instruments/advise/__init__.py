"""`ownlab gpus advise`, `ownlab clouds cost`: which card, which platform, for this job and this money, and why."""
