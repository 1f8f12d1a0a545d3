"""Two tuners that share a PostgreSQL archive, whose server is restarted meanwhile."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest

import feinsum_fuse as ff
from feinsum_fuse.archive import Fit
from feinsum_fuse.device.catalogue import find_device
from tests.archive.postgres import Server
from tests.conftest import ROOT
from tests.sweeps import SLOW

from .spaces import product

TUNER = """
import json, sys
import feinsum_fuse as ff
from tests.tuning.spaces import product
url, seed = sys.argv[1:]
tell = lambda progress: print(json.dumps(progress.done), flush=True)
tuned = ff.tune(product(), "pocl", seconds=600, measurements=5, seed=int(seed), url=url, progress=tell, resume=True, top=20)
run = [tried.outcome for tried in tuned.history if not (tried.recorded or tried.equal) and tried.outcome != "rejected"]
print(json.dumps({"run": len(run), "finals": len(tuned.finalists), "gain": tuned.default.median / tuned.measurement.median}))
"""


@pytest.fixture
def server() -> Iterator[Server]:
    made = Server()
    yield made
    made.close()


@pytest.mark.skipif(not SLOW, reason="two searches and a server")
def test_two_tuners_and_a_restart(server: Server) -> None:
    url = server.new_schema()
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    tuners = [
        subprocess.Popen([sys.executable, "-c", TUNER, url, str(seed)], stdout=subprocess.PIPE, text=True, env=environment, cwd=ROOT)
        for seed in (1, 2)
    ]
    first = tuners[0].stdout
    assert first is not None
    while json.loads(first.readline()) < 2:
        pass
    server.stop("immediate")
    time.sleep(1)
    server.start()
    results = [json.loads(tuner.communicate(timeout=300)[0].splitlines()[-1]) for tuner in tuners]
    assert [tuner.returncode for tuner in tuners] == [0, 0]
    assert all(result["gain"] >= 1 for result in results)
    facts = [f for f in ff.query(ff.cascade(product()), find_device("pocl"), outcome=None, url=url) if f.found is Fit.exact]
    # Each candidate that ran is a fact, and each that took the decisive turns is one more.
    assert len({fact.known.id for fact in facts}) == len(facts) == sum(result["run"] + result["finals"] for result in results)
