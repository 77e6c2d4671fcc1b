"""google.colab.html: HTML elements in the cell's output that Python controls, and resources for them."""

from ._element import Element
from ._resource import create as create_resource

__all__ = ["Element", "create_resource"]
