"""What comes from files, databases and devices is shown on a terminal, not obeyed by it."""

from __future__ import annotations

import dataclasses
import json
import re
from pathlib import Path

import pytest

from feinsum_fuse.archive import record
from feinsum_fuse.device.catalogue import DeviceInfo
from feinsum_fuse.errors import Error, Location, shown
from tests.archive.samples import measurement
from tests.cli.conftest import Ended, Invoke
from tests.cli.files import WORKLOAD, write

EVIL = "\x1b]0;owned\x07\x9b2J\x7f\u202e\r\u200b\ud83d"
"""A title, a cleared screen, a deletion, text that runs backwards, a line that starts again, nothing, and half a character."""


def assert_shown(ended: Ended) -> None:
    """Some of it is there, in letters; nothing is left that a terminal obeys."""
    text = ended.out + ended.err
    assert "owned" in text
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u202a-\u202e\ud800-\udfff]", text)


def test_errors_in_files(invoke: Invoke, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for text in (WORKLOAD.replace("A[m, k]", json.dumps(EVIL)), WORKLOAD.replace("K: 4", f"{json.dumps(EVIL)}: 4"), json.dumps({EVIL: 1})):
        ended = invoke("check", *write(tmp_path, workload=text))
        assert ended.code == 1
        assert_shown(ended)


def test_names_of_files(invoke: Invoke, tmp_path: Path) -> None:
    file = tmp_path / "\x1b]0;owned\x07.yaml"
    for content in (None, "workload: 3"):
        if content:
            file.write_text(content)
        assert_shown(invoke("check", file))


def test_facts_of_others(invoke: Invoke, tmp_path: Path) -> None:
    url = tmp_path / "facts.sqlite3"
    label = EVIL.removesuffix("\ud83d")
    record(dataclasses.replace(measurement(), label=label, message=label), url=url)
    for arguments in (("stats",), ("stats", "--json"), ("export",), ("export", "--json")):
        ended = invoke("db", *arguments, "--url", url)
        assert ended.code == 0
        assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e]", ended.out)


def test_names_of_devices(invoke: Invoke, monkeypatch: pytest.MonkeyPatch) -> None:
    real = DeviceInfo.of

    def named(device: object) -> DeviceInfo:
        return dataclasses.replace(real(device), name=EVIL)  # type: ignore[arg-type]

    monkeypatch.setattr(DeviceInfo, "of", named)
    for arguments in ((), ("--json",)):
        assert_shown(invoke("devices", *arguments))
    assert json.loads(invoke("devices", "--json").out)[0]["name"] == EVIL


def test_errors_of_the_library() -> None:
    error = Error(f"no tensor {EVIL}", location=Location(EVIL, 1, 2), hint=EVIL)
    assert str(error).count("\\x1b]0;owned\\x07\\x9b2J\\x7f\\u202e\\r\\u200b\\ud83d") == 3


def test_text_that_is_harmless_stays() -> None:
    text = "Zürich, μs, 漢字, 🙂\tand\nlines"
    assert shown(text) == text


@pytest.mark.parametrize("text", ["--no\x1b[31m", "--no\u202egnp.exe", "che\x9bck", "--set=\u200b"])
def test_usage_errors_show_what_terminals_obey(invoke: Invoke, text: str) -> None:
    ended = invoke("check", text, "x.yaml")
    assert ended.err == shown(ended.err)
    assert ended.code == 2 if text.startswith("--") else ended.code == 1
    ended = invoke(text)
    assert (ended.code, ended.err) == (2, shown(ended.err))
    assert ended.err.startswith("Usage: ")
