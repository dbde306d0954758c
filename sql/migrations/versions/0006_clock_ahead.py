"""An index of the rollovers that wait for their retry time."""

from sql.migrations import run_sql_beside

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None


def upgrade() -> None:
    run_sql_beside(__file__)
