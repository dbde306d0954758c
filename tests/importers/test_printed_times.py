"""Times as apps print them in every language, and what only the whole file can tell."""

from __future__ import annotations

from datetime import date, datetime, time

import pytest
from babel.dates import format_date, format_datetime, format_time

from importers.cells import BrokenRowError
from importers.printed_times import Dates
from importers.time_words import languages

LANGUAGES = (*languages(),)
# One after the 12th, so that numbers alone tell day from month.
DAYS = [datetime(2026, month, 14, hour, 5) for month, hour in zip(range(1, 13), range(0, 24, 2), strict=True)]


PATTERNS = ("d MMM y, HH:mm", "d LLL y, HH:mm", "d MMMM y, HH:mm", "d LLLL y, HH:mm", "MMM d, y, h:mm a",
            "EEE d MMM y HH:mm", "EEEE, d MMMM y, h:mm a", "y MMM d HH:mm", "HH:mm d MMM y")  # fmt: skip


def printings(moment: datetime, language: str) -> list[str]:
    """The ways in which a phone of that language prints a moment."""
    return [
        format_datetime(moment, "medium", locale=language),
        *(format_datetime(moment, pattern, locale=language) for pattern in PATTERNS),
        *(
            f"{format_date(moment, day, locale=language)}{between}{format_time(moment, clock, locale=language)}"
            for day in ("medium", "long")
            for clock in ("short", "medium")
            for between in (", ", " ")
        ),
    ]


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_language_is_read_as_it_prints(language):
    # Hungarian "de." is no half of the day where it may be "of"; only at midnight would the clock not show it.
    moments = DAYS[1:] if language == "hu" else DAYS
    read = {
        printed: Dates([printed]).read("start_time", printed)
        for moment in moments
        for printed in printings(moment, language)
    }
    assert read == {printed: moment for moment in moments for printed in printings(moment, language)}


def test_a_year_of_one_language_is_read_as_one_file():
    for language in LANGUAGES:
        texts = [format_datetime(moment, "medium", locale=language) for moment in DAYS]
        dates = Dates(texts)
        assert [dates.read("start_time", text) for text in texts] == DAYS


@pytest.mark.parametrize(
    "printed",
    [
        "2026-03-03T18:05:00Z", "2026-03-03T18:05:00.000Z", "2026-03-03 18:05:00+00:00", "2026-03-03 18:05",
        "3. 3. 2026 18:05", "3. 3. 2026, 18:05", "3. března 2026 v 18:05", "3. bře 2026, 18:05", "3 bře 2026, 18:05",
        "3. marca 2026, 18:05", "3 mar 2026, 18:05", "2026. márc. 3. 18:05", "2026. 03. 03. 18:05",
        "3 márc. 2026, 18:05",
        "3.3.2026 klo 18.05", "3. maaliskuuta 2026 klo 18.05", "3 maalis 2026, 18:05", "3 maalisk. 2026, 18:05",
        "3 бер. 2026 р., 18:05", "3 березня 2026 р. о 18:05", "3 бер 2026, 18:05", "3 Μαρ 2026, 6:05 μ.μ.",
        "3 Μαρτίου 2026 στις 6:05 μ.μ.", "3 Μαρ 2026, 18:05", "3 במרץ 2026, 18:05", "3 במרץ 2026 בשעה 18:05",
        "3 מרץ 2026, 18:05", "03\u200f/03\u200f/2026, 6:05 م", "٠٣\u200f/٠٣\u200f/٢٠٢٦، ٦:٠٥ م", "3 مارس 2026, 18:05",
        "٣ مارس ٢٠٢٦، ١٨:٠٥", "3 मार्च 2026, 6:05 pm", "३ मार्च २०२६, १८:०५", "3 मार्च 2026, 18:05",
        "3 มี.ค. 2569 18:05", "3 มี.ค. 2026, 18:05", "3 มีนาคม พ.ศ. 2569 เวลา 18:05 น.", "18:05 3 thg 3, 2026",
        "3 thg 3 2026, 18:05", "3 thg 3, 2026, 18:05", "lúc 18:05 ngày 3 tháng 3, 2026", "2026. 3. 3. 오후 6:05",
        "2026년 3월 3일 오후 6:05", "3 3월 2026, 18:05", "2026年3月3日 18:05", "2026年3月3日下午6:05",
        "2026年3月3日 晚上6:05", "3 3月 2026, 18:05", "2026/03/03 18:05", "2026/3/3 午後6:05", "3 мар. 2026 г., 18:05",
        "3 марта 2026 г. в 18:05", "3 marca 2026 o 18:05", "3 mrt 2026, 18:05", "3 maart 2026 om 18:05",
        "3 mars 2026 kl. 18:05", "3. mar. 2026 18.05", "3. marts 2026 kl. 18.05", "3. mars 2026, 18:05",
        "3 martie 2026, 18:05", "3 Maret 2026 pukul 18.05", "3 Mac 2026, 6:05 PTG", "3 de març del 2026, 18:05",
        "3 март 2026 г., 18:05", "3 Mar 2026, 6:05 ÖS", "3 Mart 2026 18:05", "3 mar 2026, 6:05 p.\u202fm.",
        "Tue, 3 Mar 2026, 18:05", "3 mars 2026 à 18 h 05", "3 mar 2026 alle ore 18:05", "3. März 2026 um 18:05 Uhr",
    ],
)  # fmt: skip
def test_the_third_of_march_as_real_files_print_it(printed):
    assert Dates([printed]).read("start_time", printed) == datetime(2026, 3, 3, 18, 5)


@pytest.mark.parametrize("printed", ["14 تشرين الثاني 2026, 18:05", "14 تشرين الأول 2026, 18:05"])
def test_a_month_of_two_words_is_neither_of_them(printed):
    month = 11 if "الثاني" in printed else 10
    assert Dates([printed]).read("start_time", printed) == datetime(2026, month, 14, 18, 5)


@pytest.mark.parametrize(
    ("others", "day"),
    [
        (["3 Μαΐου 2026, 6:05 μ.μ."], date(2026, 6, 5)),  # Greek alone: day first
        (["5/6/2026, 6:05 μ.μ."], date(2026, 6, 5)),
        (["13/6/2026, 6:05 PM"], date(2026, 6, 5)),
        (["6/13/2026, 6:05 PM"], date(2026, 5, 6)),
        (["5/6/2026, 6:05 PM"], None),
        (["13/6/2026, 6:05 PM", "6/13/2026, 6:05 PM"], None),
    ],
)
def test_the_file_tells_day_from_month(others, day):
    dates = Dates(["05/06/2026, 18:05", *others])
    if day is None:
        with pytest.raises(BrokenRowError, match="may be day/month or month/day"):
            dates.read("start_time", "05/06/2026, 18:05")
    else:
        assert dates.read("start_time", "05/06/2026, 18:05") == datetime.combine(day, time(18, 5))


def test_a_broken_time_tells_nothing_about_the_others():
    dates = Dates(["Brumaire the fifth", "5 Brumaire 2026, 18:05", "3 бер. 2026 р., 18:05"])
    assert dates.read("start_time", "3 бер. 2026 р., 18:05").month == 3


def test_a_day_without_a_time():
    dates = Dates([])
    assert dates.day_and_time("date", "3 Mar 2026") == (date(2026, 3, 3), None)
    assert dates.day_and_time("date", "2026-03-03") == (date(2026, 3, 3), None)
    with pytest.raises(BrokenRowError):
        dates.read("date", "2026-03-03")


@pytest.mark.parametrize(
    "printed",
    ["3 Mar 2026 PM", "33 Mar 2026, 18:05", "3 Mar 2026, 18:65", "3 Feb Apr 2026, 18:05", "3 Mar 2026, 18:05 18:06",
     "2026-02-30T18:05", "3 Ma 2026, 18:05", "2026-13-03 18:05", "29 Feb 2026, 18:05", "3 Mar 0000, 18:05"],
)  # fmt: skip
def test_what_is_no_time(printed):
    with pytest.raises(BrokenRowError, match="is not like 31 Dec 2024, 18:30"):
        Dates([printed]).read("start_time", printed)
