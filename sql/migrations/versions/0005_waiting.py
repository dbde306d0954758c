"""Waiting: runs that others hold up, and a queue that is read in the order in which its rows become due."""

from sql.migrations import run_sql_beside

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None


def upgrade() -> None:
    run_sql_beside(__file__)
