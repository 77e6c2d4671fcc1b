"""google.colab.syntax: marks the language of a string for the editor: `query = syntax.sql('SELECT …')`."""

__all__ = ["css", "html", "javascript", "sql"]


def html(s: str) -> str:
    """Return the string."""
    return s


def javascript(s: str) -> str:
    """Return the string."""
    return s


def sql(s: str) -> str:
    """Return the string."""
    return s


def css(s: str) -> str:
    """Return the string."""
    return s
