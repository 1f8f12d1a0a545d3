"""Draws what :doc:`pages` and the front page show: ``python doc/pages.py``. Needs chromium and the extra ``test``.

The demo is run once, by ``report`` as anybody would, into an archive of its own; ``doc/demo.svg`` is its chart of times, and
``doc/screens/`` has five pages as chromium shows them. ``doc/memory.svg`` needs no run.
"""

from __future__ import annotations

import io
import os
import shutil
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

from PIL import Image
from playwright.sync_api import Page, sync_playwright
from werkzeug.serving import make_server

import feinsum_fuse as ff
from feinsum_fuse.device.catalogue import find_device
from feinsum_fuse.pages import figures
from feinsum_fuse.pages.browser.site import application
from feinsum_fuse.pages.memory import course_of
from feinsum_fuse.pages.picture import picture
from feinsum_fuse.pages.subject import Case
from feinsum_fuse.report.run_prediction import Predicted
from feinsum_fuse.report.trial import run

DOC = Path(__file__).resolve().parent
DEMO = DOC.parent / "examples" / "three_matmuls"
FILES = [DEMO / f"{name}.yaml" for name in ("workload", "mapping_unfused", "mapping_fused")]
COLOURS = 64
"""Of a picture of a page: few are enough, and it stays small."""


def shoot(page: Page, name: str) -> None:
    """The visible part of a page as ``doc/screens/NAME.png``."""
    page.wait_for_timeout(500)
    picture = Image.open(io.BytesIO(page.screenshot())).convert("RGB")
    picture.quantize(COLOURS, dither=Image.Dither.NONE).save(DOC / "screens" / f"{name}.png", optimize=True)


def demo(url: str) -> None:
    """``doc/demo.svg``, from a run now."""
    device = find_device(None)
    calibrated = ff.calibrate(device)
    loaded = {name: ff.load(FILES[0], file) for name, file in (("unfused", FILES[1]), ("fused", FILES[2]))}
    specs = {name: spec.replace(arch=calibrated.arch, opencl=calibrated.opencl) for name, spec in loaded.items()}
    trials = run(specs, device, url=url)
    cases = [Case(t.label, f"m{n}", t.spec, trials.cascade, t.predicted, t.note, t.measurement) for n, t in enumerate(trials.trials)]
    (DOC / "demo.svg").write_bytes(picture(figures.times(cases)))
    print(trials)


def memory() -> None:
    """``doc/memory.svg``: the buffer of a fused mapping as its loops run."""
    spec = ff.load(*(DOC.parent / "examples" / "matvecs" / f"{part}.yaml" for part in ("workload", "arch", "mapping")))
    cascade = ff.cascade(spec)
    case = Case("fused", "memory", spec, cascade, Predicted.of(spec, cascade))
    (DOC / "memory.svg").write_bytes(picture(course_of(case, "OnChipBuffer")))


def main() -> None:
    """All of it."""
    memory()
    program = shutil.which("chromium")
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        url, file = "facts.sqlite3", f"{folder}/report.html"
        os.chdir(folder)  # pages say where the archive is
        demo(url)
        subprocess.run([sys.executable, "-m", "feinsum_fuse.cli", "report", *FILES, "-o", file, "--url", url], check=True)
        chromium = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        page = chromium.new_page(viewport={"width": 1200, "height": 760})
        page.goto(Path(file).as_uri())
        page.wait_for_selector("figure.live")
        for name, place in (("report", "#times"), ("report_tree", "#mapping-2 ~ .beside")):
            page.locator(place).scroll_into_view_if_needed()
            page.locator(place).evaluate("element => element.scrollIntoView()")
            shoot(page, name)
        server = make_server("127.0.0.1", 0, application(url), threaded=True)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        here = f"http://127.0.0.1:{server.server_port}"
        page.goto(here)
        shoot(page, "archive")
        facts = [item.get_attribute("value") for item in page.locator("input[type=checkbox]").all()]
        page.goto(f"{here}/facts/{facts[0]}")
        shoot(page, "fact")
        page.goto(f"{here}/compare?fact={facts[0]}&fact={facts[-1]}")
        shoot(page, "compare")
        server.shutdown()
        chromium.close()


if __name__ == "__main__":
    main()
