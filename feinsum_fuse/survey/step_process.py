"""The process of one step: ``python -m feinsum_fuse.survey.step_process STEP FOLDER DEADLINE PARENT``."""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path

from ..errors import Error
from ..executors import end_with
from .step_session import SurveySession, SurveySettings
from .survey_journal import SurveyJournal

MODULES = {
    "devices": "device_facts",
    "smoke": "kernels",
    "examples": "kernels",
    "calibrate": "device_facts",
    "trees": "kernels",
    "tuning": "tuning",
    "peers": "peers",
    "model": "accuracy",
}
"""Step -> the module that has a function of its name."""


def main(step: str, folder: str, deadline: str, parent: str) -> int:
    """Run the step; 1 for an error of ours, which is printed."""
    end_with(int(parent))
    place = Path(folder)
    session = SurveySession(step, SurveyJournal(place), SurveySettings.read(place), float(deadline))
    run: Callable[[SurveySession], None] = getattr(import_module(f".{MODULES[step]}", __package__), step)
    try:
        run(session)
    except Error as error:
        print(error)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
