"""Text for terminals and pipes, through Rich."""
