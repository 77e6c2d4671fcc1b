"""One training or inference step of the user's model, traced without a card: which memory comes and goes, and when."""
