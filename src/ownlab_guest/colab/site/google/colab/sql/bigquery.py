"""BigQuery through Google's page: not available."""

from typing import Any, Optional

from .. import errors

WHY = (
    "google.colab.sql.bigquery needs Google's own page, which ownlab does not have. "
    "With credentials (google.colab.auth.authenticate_user()), use `google-cloud-bigquery`: "
    "google.cloud.bigquery.Client(project=…).query(sql).to_dataframe()."
)


def set_credentials(creds: Any = None, project_id: Optional[str] = None) -> None:
    """Raise an error that names alternatives."""
    raise errors.Error(WHY)


def validate(sql: str) -> Any:
    """Raise an error that names alternatives."""
    raise errors.Error(WHY)


def run(sql: str) -> Any:
    """Raise an error that names alternatives."""
    raise errors.Error(WHY)
