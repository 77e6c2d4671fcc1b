"""The exceptions that notebooks and libraries catch."""


class Error(Exception):
    """The base of the others, except WidgetException: as on Colab."""


class AuthorizationError(Error):
    """There are no credentials, and none could be obtained."""


class RuntimeManagementError(Error):
    """The runtime could not be ended."""


class WidgetException(Exception):
    """A widget was used in an invalid way."""
