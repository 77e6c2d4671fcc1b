"""BigQuery through Google's page: not here."""

from typing import Any, Optional

from .. import errors

WHY = (
    "google.colab.sql.bigquery works through Google's own page, which ownlab has not. "
    "With credentials (google.colab.auth.authenticate_user()) `google-cloud-bigquery` does the same: "
    "google.cloud.bigquery.Client(project=…).query(sql).to_dataframe()."
)


def set_credentials(creds: Any = None, project_id: Optional[str] = None) -> None:
    """Raises an error that says what to use instead."""
    raise errors.Error(WHY)


def validate(sql: str) -> Any:
    """Raises an error that says what to use instead."""
    raise errors.Error(WHY)


def run(sql: str) -> Any:
    """Raises an error that says what to use instead."""
    raise errors.Error(WHY)
