"""Third-party widgets. JupyterLab shows those that are installed, without being told; so both calls do nothing."""


def enable_custom_widget_manager(version: str = "5.0.0a") -> None:
    """Nothing: on Colab it loads a widget manager from the network."""


def disable_custom_widget_manager() -> None:
    """Nothing."""
