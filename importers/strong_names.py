"""What the Strong app calls its columns and hours in each language, as its exports print it."""

from __future__ import annotations

from collections.abc import Mapping

REQUIRED = ("Date", "Workout Name", "Exercise Name", "Set Order", "Weight", "Reps")

_ENGLISH: Mapping[str, str] = {
    name: name
    for name in (
        *REQUIRED, "Workout #", "Duration", "Weight Unit", "RPE", "Distance", "Distance Unit", "Seconds",
        "Notes", "Workout Notes",
    )
}  # fmt: skip

COLUMN_NAMES: Mapping[str, str] = {
    **_ENGLISH,
    "Workout Duration": "Duration",
    # German
    "Datum": "Date",
    "Workout-Name": "Workout Name",
    "Dauer": "Duration",
    "Workout-Dauer": "Duration",
    "Name der Übung": "Exercise Name",
    "Reihenfolge festlegen": "Set Order",
    "Gewicht": "Weight",
    "Wiederh.": "Reps",
    "Entfernung": "Distance",
    "Sekunden": "Seconds",
    "Notizen": "Notes",
    "Workout-Notizen": "Workout Notes",
    # French
    "Nom de l'entraînement": "Workout Name",
    "Durée": "Duration",
    "Nom de l'exercice": "Exercise Name",
    "Ordre de la série": "Set Order",
    "Poids": "Weight",
    "Réps": "Reps",
    "Secondes": "Seconds",
    "Notes d'entraînement": "Workout Notes",
    # Spanish
    "Fecha": "Date",
    "Nombre de Entrenamiento": "Workout Name",
    "Duración": "Duration",
    "Nombre del Ejercicio": "Exercise Name",
    "Orden de las series": "Set Order",
    "Peso": "Weight",
    "Distancia": "Distance",
    "Segundos": "Seconds",
    "Notas": "Notes",
    "Notas de Entrenamiento": "Workout Notes",
    # Portuguese
    "Data": "Date",
    "Nome do treino": "Workout Name",
    "Duração": "Duration",
    "Nome do exercício": "Exercise Name",
    "Ordem da série": "Set Order",
    "Distância": "Distance",
    "Notas do treino": "Workout Notes",
    # Chinese
    "日期": "Date",
    "锻炼名称": "Workout Name",
    "时长": "Duration",
    "运动名称": "Exercise Name",
    "设置顺序": "Set Order",
    "重量": "Weight",
    "次": "Reps",
    "距离": "Distance",
    "秒": "Seconds",
    "备注": "Notes",
    "锻炼备注": "Workout Notes",
}

# Old versions name these columns after their unit alone.
COLUMN_UNITS: Mapping[str, tuple[str, str]] = {
    "kg": ("Weight", "kg"),
    "lb": ("Weight", "lb"),
    "lbs": ("Weight", "lb"),
    "km": ("Distance", "km"),
    "mi": ("Distance", "mi"),
    "m": ("Distance", "m"),
}

SECONDS_PER_WORD: Mapping[str, int] = {
    **dict.fromkeys(("h", "hr", "hrs", "hour", "hours", "std", "stunde", "stunden", "heure", "heures"), 3600),
    **dict.fromkeys(("hora", "horas", "ora", "ore", "小时", "小時", "時間", "시간", "ч"), 3600),
    **dict.fromkeys(("m", "min", "mins", "minute", "minutes", "minuten", "minuto", "minutos"), 60),
    **dict.fromkeys(("minuti", "分钟", "分鐘", "分", "분", "мин"), 60),
    **dict.fromkeys(("s", "sec", "secs", "second", "seconds", "sek", "sekunden", "seg", "segundos"), 1),
    **dict.fromkeys(("secondes", "secondi", "秒", "초", "с"), 1),
}
