"""Private outputs are keyed by the run alone."""

from sql.migrations import run_sql_beside

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None


def upgrade() -> None:
    run_sql_beside(__file__)
