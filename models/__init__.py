"""SQLAlchemy's view of the tables, one file a subject. The Alembic steps under sql/migrations make them."""

from models.base import Base, metadata
from models.canonical import (
    Exercise,
    ExerciseExternalMapping,
    SessionExercisePart,
    SessionSet,
    StatsMutationReceipt,
    UserManualPrRecord,
    WorkoutSession,
)
from models.projection import (
    StatsOutputDailyRollup,
    StatsOutputPrSummary,
    StatsOutputRecord,
    StatsProjectionPolicy,
    StatsProjectionWorkerSettings,
    UserStatsProjectionRun,
)
from models.queue import StatsRefreshEventType, UserExerciseStatsRefreshJob, UserStatsRefreshState
from models.read_models import (
    UserExerciseDailyRollup,
    UserExerciseRecord,
    UserPrExerciseSummarySnapshot,
    UserPrOverviewSnapshotHeader,
)

__all__ = [
    "Base",
    "Exercise",
    "ExerciseExternalMapping",
    "SessionExercisePart",
    "SessionSet",
    "StatsMutationReceipt",
    "StatsOutputDailyRollup",
    "StatsOutputPrSummary",
    "StatsOutputRecord",
    "StatsProjectionPolicy",
    "StatsProjectionWorkerSettings",
    "StatsRefreshEventType",
    "UserExerciseDailyRollup",
    "UserExerciseRecord",
    "UserExerciseStatsRefreshJob",
    "UserManualPrRecord",
    "UserPrExerciseSummarySnapshot",
    "UserPrOverviewSnapshotHeader",
    "UserStatsProjectionRun",
    "UserStatsRefreshState",
    "WorkoutSession",
    "metadata",
]
