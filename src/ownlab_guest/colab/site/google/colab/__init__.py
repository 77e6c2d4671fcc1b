"""What a notebook finds as google.colab where it is run without a page: files that are given to it, and that it gives."""

from . import files

__all__ = ["files"]
