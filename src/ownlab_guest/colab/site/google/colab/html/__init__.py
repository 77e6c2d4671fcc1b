"""Elements in the cell's output that Python can speak to, and resources for them."""

from ._element import Element
from ._resource import create as create_resource

__all__ = ["Element", "create_resource"]
