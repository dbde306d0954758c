"""The time by which the purge judges ages."""

from sql.migrations import run_sql_beside

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None


def upgrade() -> None:
    run_sql_beside(__file__)
