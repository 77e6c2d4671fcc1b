"""google.colab.sql: not available; its functions raise errors that name alternatives."""
