import time
from test_wodup import *
def test_big(wodup):
    b=wodup.batch(*(result(*(lift(100+i%40,5) for i in range(10)), id=f"r-{n}", timeZone="Europe/Berlin", doneAt="2026-03-10T10:00:00") for n in range(2400)))
    print(len(json.dumps(b)))
    for _ in range(2):
        t=time.time(); a=wodup.imported(b); print(a["results_saved"], a["sets_saved"], time.time()-t)
    assert 0
