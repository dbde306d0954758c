"""Assistance: printed as a weight on an exercise whose name says so, or as a negative weight."""

from __future__ import annotations

from decimal import Decimal

import pytest

from importers import hevy, strong
from importers.exercise_names import says_assisted
from importers.history import ImportedSet
from importers.tracking import infer_tracking, stored_weight

NAMES = [
    "Pull Up (Assisted)", "pull up (ASSISTED)", "Assisted Pull Up", "Chest Dip (Assisted)", "Band-Assisted Chin Up",
    "Barra Fixa (Assistida)", "Paralelas (Assistido)", "Dominadas (Asistidas)", "Fondos Asistidos", "Dominada Asistida",
    "Traction (Assistée)", "Dips assistés", "Tractions Assiste\u0301es", "Klimmzug (Assistiert)",
    "Unterstützte Klimmzüge", "Klimmzug (unterstützt)", "Klimmzug mit Unterstützung", "Trazioni (assistite)",
    "Trazione alla sbarra assistita", "Dip (geassisteerd)", "Ondersteunde dip", "Podciąganie (wspomagane)",
    "Podciąganie z asystą", "Destekli Barfiks", "Подтягивания (с помощью)", "Подтягивания в гравитроне",
    "Підтягування з допомогою", "引体向上（辅助）", "輔助引體向上", "懸垂（アシスト）", "풀업 (어시스트)",
    "Shyb s dopomocí",
    "Húzódzkodás (segített)", "Leuanveto (avustettu)", "Assisterad chins", "Assisteret pull up", "Assistert pull-up",
    "Tracțiuni asistate", "Pull Up Dibantu", "Hít xà (hỗ trợ)", "Έλξεις (υποβοηθούμενες)", "מתח בסיוע", "سحب بمساعدة",
    "पुल अप (सहायता)", "พูลอัพแบบช่วย",
]  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
def test_names_that_say_so_in_every_language(name):
    assert says_assisted(name)


@pytest.mark.parametrize(
    "name",
    ["Pull Up", "Unassisted Pull Up", "Chest Supported Row", "Brust-unterstütztes Rudern", "Brustunterstütztes Rudern",
     "Bench Press", "Massage", "Rest", "Bassist Curl"],
)  # fmt: skip
def test_names_that_do_not(name):
    assert not says_assisted(name)


def a_set(weight=None, reps=None, seconds=None, distance=None):
    return ImportedSet(
        2,
        weight_kg=None if weight is None else Decimal(weight),
        reps=reps,
        duration_seconds=seconds,
        distance_m=None if distance is None else Decimal(distance),
    )


@pytest.mark.parametrize(
    ("name", "sets", "tracking"),
    [
        ("Dip (Assisted)", [a_set(30, 8)], "assisted_reps"),
        ("Dip (Assisted)", [a_set(-30, 8)], "assisted_reps"),
        ("Dip (Assisted)", [a_set(-30, 8), a_set(20, 8)], "assisted_reps"),
        ("Dip (Assisted)", [a_set(None, 8)], "assisted_reps"),
        ("Dip (Assisted)", [a_set()], "assisted_reps"),
        ("Hang (Assisted)", [a_set(seconds=30)], "duration"),
        ("Hang (Assisted)", [a_set(30, seconds=30)], "assisted_reps"),
        ("Dip", [a_set(-30, 8), a_set(None, 6)], "assisted_reps"),
        ("Dip", [a_set(-30, 8), a_set(10, 6)], "weight_reps"),
        ("Dip", [a_set(None, 8)], "bodyweight_reps"),
        ("Dip", [a_set(None, 8), a_set(10, 5)], "weight_reps"),
        ("Plank", [a_set(-30, seconds=30)], "duration"),
    ],
)
def test_what_a_file_shows(name, sets, tracking):
    assert infer_tracking(name, sets) == tracking


def test_hevys_assisted_pull_up(tmp_path):
    path = tmp_path / "hevy.csv"
    path.write_text(
        "title,start_time,exercise_title,set_index,set_type,weight_kg,reps\n"
        + "".join(
            f'Pull,"{day} Mar 2026, 18:30",Pull Up (Assisted),0,normal,{weight},8\n'
            for day, weight in ((3, 30), (4, 20), (5, -40))
        )
    )
    history = hevy.parse(path, None)
    assert history.tracking == {"Pull Up (Assisted)": "assisted_reps"}
    assert (history.taken, len(history.skipped)) == (3, 0)
    assert [stored_weight(one) for session in history.sessions for one in session.sets()] == [30, 20, 40]


def test_a_plain_name_with_both_signs_keeps_its_tracking(tmp_path):
    path = tmp_path / "strong.csv"
    path.write_text(
        "Date,Workout Name,Exercise Name,Set Order,Weight,Reps\n"
        "2026-03-03 18:30:00,Pull,Dip,1,-20,8\n"
        "2026-03-03 18:30:00,Pull,Dip,2,10,8\n"
    )
    history = strong.parse(path, "kg")
    assert history.tracking == {"Dip": "weight_reps"}
    # What is skipped, the account's own tracking decides.
    assert [one.weight_kg for session in history.sessions for one in session.sets()] == [-20, 10]


@pytest.mark.parametrize(
    ("name", "exercises"),
    [("strong-kg-de-10months.csv", {"Pull Up (Assisted)", "Chest Dip (Assisted)"})],
)
def test_real_files_have_assisted_exercises(real_file, name, exercises):
    tracking = strong.parse(real_file(name), "kg").tracking
    assert {exercise for exercise, tracked in tracking.items() if tracked == "assisted_reps"} == exercises
