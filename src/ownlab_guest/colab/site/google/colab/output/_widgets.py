"""Third-party widgets. JupyterLab shows installed ones by itself, so both calls do nothing."""


def enable_custom_widget_manager(version: str = "5.0.0a") -> None:
    """Do nothing; on Colab it loads a widget manager from the network."""


def disable_custom_widget_manager() -> None:
    """Do nothing."""
