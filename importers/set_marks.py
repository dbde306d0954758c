"""The marks by which apps tell their kinds of sets, and the rows between the sets, in each language."""

from __future__ import annotations

import re
from collections.abc import Mapping

from importers.history import ImportedSet, SetType

_COUNTED = re.compile(r"[0-9]+(?:[.,]0+)?")

# Marks without spaces, hyphens and underscores, in capitals.
COUNTED = "1"
"""What every number is read as: Strong counts the normal sets, from 1 or from 0."""
SET_TYPES: Mapping[str, SetType] = {
    COUNTED: "normal",
    "W": "warmup",
    "WARMUP": "warmup",
    "D": "drop",
    "DROP": "drop",
    "DROPSET": "drop",
    "F": "failure",
    "FAILURE": "failure",
    "NORMAL": "normal",
    "WORKING": "normal",
}
# In the app's languages, with what its other texts call the timer; a mark that is missing here is known by its numbers.
REST_TIMERS = frozenset(
    {
        "RESTTIMER", "RESTTIME",
        "RUHEZEIT", "RUHETIMER", "PAUSENTIMER", "PAUSENZEIT",
        "MINUTEURDEREPOS", "MINUTERIEDEREPOS", "TEMPSDEREPOS",
        "TEMPORIZADORDEDESCANSO", "CRONÓMETRODEDESCANSO", "TIEMPODEDESCANSO",
        "TEMPODEDESCANSO", "CRONÔMETRODEDESCANSO", "TIMERDEDESCANSO",
        "TIMERDIRIPOSO", "TIMERRIPOSO", "TEMPODIRECUPERO", "TEMPODIRIPOSO",
        "ТАЙМЕРОТДЫХА", "ВРЕМЯОТДЫХА",
        "休息计时器", "休息時間", "休息时间", "休息計時器", "組間休息", "组间休息",
        "レストタイマー", "休憩タイマー", "休憩時間",
        "휴식타이머", "휴식시간",
        "RUSTTIMER", "RUSTTIJD", "DİNLENMEZAMANLAYICISI", "DINLENMEZAMANLAYICISI",
        "CZASODPOCZYNKU", "MINUTNIKODPOCZYNKU",
        "VILOTIMER", "HVILETID", "HVILETIMER",
    }
)  # fmt: skip
# Words that may also mark a set with a rest in it: a rest timer's where the row has neither reps nor a distance.
RESTS = frozenset(
    {
        "REST", "PAUSE", "REPOS", "DESCANSO", "RIPOSO", "RECUPERO", "ОТДЫХ", "休息", "レスト", "休憩", "インターバル",
        "휴식", "RUST", "DINLENME", "DİNLENME", "PRZERWA", "ODPOCZYNEK", "VILA", "HVILEPAUSE",
    }
)  # fmt: skip
NOTES = frozenset(
    {
        "NOTE", "NOTES", "NOTIZ", "NOTIZEN", "HINWEIS", "REMARQUE", "NOTA", "NOTAS", "OBSERVAÇÃO", "APPUNTO",
        "ЗАМЕТКА", "ПРИМЕЧАНИЕ", "备注", "備註", "笔记", "筆記", "メモ", "ノート", "메모", "노트", "NOTITIE", "NOT",
        "NOTATKA", "UWAGA", "ANTECKNING", "NOTAT",
    }
)  # fmt: skip
BETWEEN_SETS = REST_TIMERS | NOTES


def mark_of(printed: str) -> str:
    """Return a mark, the same however it is written; every number is the same one."""
    if printed.isdecimal() or _COUNTED.fullmatch(printed):
        return COUNTED
    return re.sub(r"[ _-]", "", printed).upper()


def is_rest(mark: str, a_set: ImportedSet) -> bool:
    """Tell whether a row is a rest, going by its mark and by what else it has."""
    return mark in RESTS and a_set.reps is None and a_set.distance_m is None
