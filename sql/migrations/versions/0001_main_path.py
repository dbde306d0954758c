"""The tables of the main path: canonical rows, queue, projection, read models, private outputs."""

from sql.migrations import run_sql_beside

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    run_sql_beside(__file__)
