"""The instruments: what the machine's facts mean."""
