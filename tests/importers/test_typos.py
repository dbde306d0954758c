"""Values that can't be are taken as printed, and listed."""

from __future__ import annotations

from decimal import Decimal

import pytest

from importers import strong
from importers.history import ImportedSet
from importers.typos import typo


@pytest.mark.parametrize(
    ("name", "tracking", "numbers", "found"),
    [
        ("Curl", "weight_reps", {"reps": 877777}, '877777 reps of "Curl"'),
        ("Curl", "weight_reps", {"reps": 1001}, '1001 reps of "Curl"'),
        ("Curl", "weight_reps", {"reps": 1000}, None),
        ("Curl", "weight_reps", {"weight_kg": "1111.76", "reps": 10}, '1111.76 kg (2451.0 lb) on "Curl"'),
        ("Squat", "weight_reps", {"weight_kg": "500.01"}, '500.01 kg (1102.3 lb) on "Squat"'),
        ("Squat", "weight_reps", {"weight_kg": "500", "reps": 1}, None),
        # 36 x 500 / 31 = 580.65, and 36 x 500 / 29 = 620.69.
        ("Squat", "weight_reps", {"weight_kg": "500", "reps": 6}, None),
        ("Squat", "weight_reps", {"weight_kg": "500", "reps": 8},
         '500 kg (1102.3 lb) x 8 on "Squat", an e1RM of 620.69 kg'),
        ("Squat", "weight_reps", {"weight_kg": "500", "reps": 13}, None),
        ("Leg Press", "weight_reps", {"weight_kg": "1000", "reps": 10}, None),
        ("Leg Press", "weight_reps", {"weight_kg": "1000.01", "reps": 10}, '1000.01 kg (2204.6 lb) on "Leg Press"'),
        ("Sled Push", "weight_distance", {"weight_kg": "700"}, None),
        ("Pulldown (Cable)", "weight_reps", {"weight_kg": "700"}, None),
        ("Squat (Smith Machine)", "weight_reps", {"weight_kg": "700"}, None),
        ("Beinpresse", "weight_reps", {"weight_kg": "700"}, None),
        ("Prensa de piernas", "weight_reps", {"weight_kg": "700"}, None),
        ("Presse à cuisses", "weight_reps", {"weight_kg": "700"}, None),
        ("腿举", "weight_reps", {"weight_kg": "700"}, None),
        ("Pull Up", "bodyweight_reps", {"weight_kg": "700", "reps": 13}, None),
        ("Pull Up", "bodyweight_reps", {"weight_kg": "1001"}, '1001 kg (2206.8 lb) on "Pull Up"'),
        ("Pull Up (Assisted)", "assisted_reps", {"weight_kg": "-400", "reps": 12}, None),
        ("Pull Up (Assisted)", "assisted_reps", {"weight_kg": "-501"}, '501 kg (1104.5 lb) on "Pull Up (Assisted)"'),
        ("Plank", "duration", {"duration_seconds": 86400}, 'a set of 24 h of "Plank"'),
        ("Plank", "duration", {"duration_seconds": 86399}, None),
        ("Curl", "weight_reps", {"weight_kg": "600", "reps": 2000},
         '2000 reps of "Curl"; 600 kg (1322.8 lb) on "Curl"'),
    ],
)  # fmt: skip
def test_what_looks_like_a_typo(name, tracking, numbers, found):
    if "weight_kg" in numbers:
        numbers = {**numbers, "weight_kg": Decimal(numbers["weight_kg"])}
    assert typo(ImportedSet(2, **numbers), name, tracking) == found


def test_typos_of_a_file_are_listed_and_taken_as_printed(tmp_path):
    path = tmp_path / "strong.csv"
    path.write_text(
        "Date,Workout Name,Exercise Name,Set Order,Weight,Reps\n"
        "2026-03-03 18:30:00,Arms,Curl,1,20,877777\n"
        "2026-03-03 18:30:00,Arms,Curl,2,20,8\n"
        "2026-03-03 18:30:00,Arms,Curl,3,2451,10\n"
    )
    history = strong.parse(path, "lb")
    assert [(a_set.reps, a_set.weight_kg) for session in history.sessions for a_set in session.sets()] == [
        (877777, Decimal("9.07")),
        (8, Decimal("9.07")),
        (10, Decimal("1111.75")),
    ]
    assert len(history.skipped) == 0
    assert [(one.line, one.text) for one in history.typos] == [
        (2, '877777 reps of "Curl"'),
        (4, '1111.75 kg (2451.0 lb) on "Curl"'),
    ]
    assert len(history.typos) == 2


def test_a_real_file_has_its_known_typos(real_file):
    history = strong.parse(real_file("strong-zh-lb-3years.csv"), "lb")
    assert len(history.typos) == len([*history.typos])
    assert history.taken == history.data_rows
