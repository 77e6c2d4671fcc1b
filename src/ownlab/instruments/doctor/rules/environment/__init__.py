"""Rules on what stands around the cards: containers and the machine itself."""
