"""`ownlab fit`: whether a training step fits a card, before one is rented, and why it did not."""
