"""What people and programs are shown: one renderer per medium, over the same records."""
