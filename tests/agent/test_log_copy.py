from __future__ import annotations

import io
from pathlib import Path

from pliant.agent.log_copy import LogCopy


def test_what_a_program_writes_is_copied_once_and_in_order(tmp_path: Path) -> None:
    log, output = tmp_path / "worker-0.log", io.BytesIO()
    copy = LogCopy(log, output)
    assert copy.catch_up() == 0, "there is no file yet"
    with log.open("ab") as file:
        for text in (b"one\n", b"", b"two \xff\n"):
            file.write(text)
            file.flush()
            copy.catch_up()
    assert output.getvalue() == b"one\ntwo \xff\n"


def test_what_was_written_before_is_not_copied_again(tmp_path: Path) -> None:
    log, output = tmp_path / "worker-0.log", io.BytesIO()
    log.write_bytes(b"old\n")
    copy = LogCopy(log, output)
    with log.open("ab") as file:
        file.write(b"new\n")
    copy.catch_up()
    assert output.getvalue() == b"new\n"
