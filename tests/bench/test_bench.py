"""The measurements run, on sizes too small to say anything about speed."""

from __future__ import annotations

import json

from bench import __main__ as bench
from bench import compute, drain, freshness, idle, import_file, rebuild_profile
from bench.report import Measured, print_results, write_results

MISSED = Measured("a slow thing", 20, "ms", bar=15)
MET = Measured("a fast thing", 20, "rows/s", at_least=15)
PLAIN = Measured("a thing", 20, "ms")


def test_an_account_is_measured_and_the_board_on_read_equals_the_published_one():
    names = [one.name for one in compute.run(["12", "9"])]
    assert "12 x 9: full rebuild at once, in passes" in names
    assert "12 x 9: loop against rebuild" in names
    assert "12 x 9: on read against get_pr_overview" in names


def test_every_part_of_a_rebuild_is_still_found():
    names = " ".join(one.name for one in rebuild_profile.run(["6", "6"]))
    assert "planning of project(), once a connection (" in names
    for part in ("sets to sessions", "records", "rep maxes", "snapshot summaries", "publication"):
        assert f"  {part} (" in names


def test_a_save_is_followed_to_its_publication_on_a_whole_stack():
    times = {one.name: one.value for one in freshness.run(["2"])}
    assert 0 < times["save to published, quiet, p50"] < times["by the beats alone, slowest"]


def test_accounts_are_drained_beside_empty_tasks():
    rates = {one.name: one.value for one in drain.run(["6"])}
    assert min(rates.values()) > 0
    assert "by direct SQL, 2 connection(s)" in rates


def test_every_part_of_an_idle_stack_is_counted():
    parts = {one.name.strip() for one in idle.measure(2, accounts=10, settle=0)}
    assert parts >= {"beat", "flower", "pipeline worker", "postgres", "valkey"}


def test_an_import_is_measured_in_a_process_of_its_own():
    rate = next(one for one in import_file.run(["100"]) if one.name.endswith("import"))
    assert (rate.unit, rate.at_least) == ("rows/s", 1000)


def test_a_missed_bar_is_printed_and_fails_nothing(monkeypatch, capsys):
    monkeypatch.setattr(bench, "WITH_BARS", {"slow": lambda _: [MISSED]})
    assert bench.main(["slow"]) == 0
    assert "MISSED" in capsys.readouterr().out


def test_a_table_says_which_bars_are_met(capsys):
    print_results("all", {"one": [MISSED, MET], "two": [PLAIN]})
    lines = capsys.readouterr().out.splitlines()
    verdicts = {
        one: next(line for line in lines if one.name in line).split("│")[-2].strip()
        for one in (MISSED, MET, PLAIN)
    }
    assert verdicts == {MISSED: "MISSED", MET: "met", PLAIN: ""}


def test_the_results_file_says_what_was_measured_where(tmp_path):
    path = tmp_path / "results.json"
    write_results(path, {"cores": 2}, {"one": [MISSED]})
    written = json.loads(path.read_text())
    assert written["machine"] == {"cores": 2}
    [one] = written["measured"]
    assert (one["bench"], one["name"], one["value"], one["met"]) == ("one", "a slow thing", 20, False)


def test_a_name_that_does_not_exist_is_refused(capsys):
    assert bench.main(["compute_fast"]) == 2
    assert "compute_fast is none of compute, " in capsys.readouterr().err
