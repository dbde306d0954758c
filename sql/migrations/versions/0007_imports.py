"""Imports: what was imported of each workout, who set an exercise's tracking, supersets."""

from sql.migrations import run_sql_beside

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None


def upgrade() -> None:
    run_sql_beside(__file__)
