"""What the cards and the host do over time: samples, verdicts in words, recordings."""
