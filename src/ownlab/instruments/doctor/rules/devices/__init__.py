"""Rules on devices: which are there, who may use them, in what state they are."""
