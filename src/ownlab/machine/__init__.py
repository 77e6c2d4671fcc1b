"""What this computer has: read live, loaded from a record, or rebuilt from text; always the same records."""
