"""What an exercise's name says about its weights, in the languages that Strong, Hevy and Fitbod print."""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache

_NAMES_REMEMBERED = 1000

# Beginnings of words, so that "unassisted" is none. "Supported" is a word of its own kind: a hyphen before it names
# what is supported, as the chest in a row, and no machine takes weight off the lifter.
_ASSISTED = re.compile(
    r"""
    (?<!\w)(?:
        assist | asist | asyst | асист | ассист            # en, fr, it, pt, de, sv, da, nb, ca; es, ro, cs, sk; pl
      | geassisteerd | avuste | segít | rásegít | wspomagan | s\ dopomoc | med\ hjälp | med\ støtte
      | destekli | yardımlı | dibantu | berbantu | bantuan | hỗ\ trợ | trợ\ lực
      | гравитрон | с\ поддержкой | с\ помощью | з\ підтримкою | з\ допомогою
      | υποβοηθ | με\ βοήθεια | בסיוע | בעזרת | נתמך | بمساعدة | مساعد | सहायता | सहायक | असिस्ट
    )
  | (?<![\w-])(?:unterstützt | mit\ unterstützung | ondersteund)
  | 辅助 | 輔助 | 助力 | アシスト | 補助 | 어시스트 | 보조 | ช่วย
    """,
    re.VERBOSE,
)
_MACHINE = re.compile(
    r"""
    (?<!\w)(?:
        machine | maschine | máquina | maquina | macchina | màquina | makine | maszyn | mašin | maskin | mesin
      | gépen | gépi | gép(?!\w) | laite | laitte | aparat | stroj | máy(?!\w) | toestel | тренаж | машин | μηχάν
      | מכונ | جهاز | آلة | मशीन
      | leg\ ?press | beinpress | presse?\ à\ (?:cuisses|jambes) | prensa | pressa | bacak\ pres | жим\ ног | жим\ ніг
      | beenpers | benpress | benpres | jalkapräss | lábtol | suwnic | presă\ (?:pentru\ )?picioare
      | sled | schlitten | traîneau | trineo | trenó | slitta | kızak | сани | санк | sanki | slee(?!\w) | slæde | kelkk
      | släde | saně | sánk
      | cable | kabel | seilzug | kabelzug | câble | poulie | polea | cabo(?!\w) | polia | cavo(?!\w) | cavi(?!\w)
      | kablo | kaapeli | talja | kladk | lank | wyciąg | kábel | csiga | cablu | кабел | трос | блок | кроссовер
      | τροχαλ | καλώδι | כבל | פולי | كابل | केबल | cáp(?!\w)
      | smith | смит | сміт
    )
  | 器械 | 机器 | 機器 | 倒蹬 | 腿举 | 腿舉 | 雪橇 | 绳索 | 繩索 | 拉索 | 缆绳 | 纜繩 | 龙门架 | 史密斯
  | マシン | レッグプレス | スレッド | ケーブル | スミス | 머신 | 레그\ ?프레스 | 슬레드 | 케이블 | 스미스
  | เครื่อง | เคเบิล | เลกเพรส | สมิธ
    """,
    re.VERBOSE,
)
_BODYWEIGHT = re.compile(
    r"bodyweight|body weight|körpergewicht|poids du corps|peso corporal|peso corporeo|corpo libero|vücut ağırlığı"
    r"|вес(?:ом)? тела|собственн\w+ вес|ciężar\w* ciała|mas\w+ ciała|lichaamsgewicht|kroppsvikt|kropsvægt|kroppsvekt"
    r"|自重|맨몸|徒手"
)


@lru_cache(maxsize=_NAMES_REMEMBERED)
def says_assisted(name: str) -> bool:
    """Tell whether the weights under `name` are what a machine or band takes off the lifter."""
    return _ASSISTED.search(_plain(name)) is not None


@lru_cache(maxsize=_NAMES_REMEMBERED)
def says_machine(name: str) -> bool:
    """Tell whether `name` is that of a machine, on which far more moves than anyone lifts."""
    return _MACHINE.search(_plain(name)) is not None


@lru_cache(maxsize=_NAMES_REMEMBERED)
def says_bodyweight(name: str) -> bool:
    """Tell whether the weights under `name` may count the lifter's own."""
    return _BODYWEIGHT.search(_plain(name)) is not None


def _plain(name: str) -> str:
    return unicodedata.normalize("NFC", name).casefold()
