"""The classes of errors that notebooks and libraries catch."""


class Error(Exception):
    """What all others here come from, but for WidgetException: as on Colab."""


class AuthorizationError(Error):
    """There are no credentials, and none could be had."""


class RuntimeManagementError(Error):
    """The runtime could not be ended."""


class WidgetException(Exception):
    """A widget was used in a way that it cannot be used in."""
