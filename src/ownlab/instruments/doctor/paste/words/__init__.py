"""From bytes to words: decoded, cleaned, split into reports, and what was said between them."""
