"""Rules about cards: permissions, visibility, health, memory, Xid errors, and other vendors."""
