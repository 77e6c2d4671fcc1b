"""google.colab.output: JavaScript in the output, callbacks from it, tags, areas, and ports."""

from ._area import no_vertical_scroll, redirect_to_element, to_default_area, to_footer_area, to_header_area
from ._js import eval_js, register_callback, unregister_callback
from ._ports import serve_kernel_port_as_iframe, serve_kernel_port_as_window
from ._tags import clear, temporary, use_tags
from ._widgets import disable_custom_widget_manager, enable_custom_widget_manager

__all__ = [
    "clear",
    "disable_custom_widget_manager",
    "enable_custom_widget_manager",
    "eval_js",
    "no_vertical_scroll",
    "redirect_to_element",
    "register_callback",
    "serve_kernel_port_as_iframe",
    "serve_kernel_port_as_window",
    "temporary",
    "to_default_area",
    "to_footer_area",
    "to_header_area",
    "unregister_callback",
    "use_tags",
]
