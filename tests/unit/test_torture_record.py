"""The record of the attacks: its sums, and its table in the documents."""

from __future__ import annotations

import pytest
from tests.torture import record


def test_a_run_is_summed_up_by_attack() -> None:
    report = {
        "test_killed_while_a_session_is_moved": {"kills": 3, "entries": 50},
        "test_killed_while_listing": {"kills": 4},
        "test_what_was_flushed_survives_a_power_cut_at_any_moment": {"states": 10, "events": 5},
        "test_spoiled_files_are_refused_or_read[blob]": {"read": 20, "refused": 30},
        "test_no_input_breaks_a_reader[fuzz_codec]": {"inputs": 100, "corpus": 7},
        "test_any_call_of_an_operation_may_fail": {"faults": 2, "refused": 1},
        "test_living[pi]": {"peer lines": 9},
    }
    assert record.sum_up(report) == {
        "kills": 7,
        "states": 10,
        "hostile": 150,
        "faults": 2,
        "interrupts": 0,
        "peers": 9,
    }


def test_the_table_in_the_documents_is_what_the_record_holds() -> None:
    document = record.DOCUMENT.read_text(encoding="utf-8")
    assert record.put_into_document(document, record.make_table(record.load_runs())) == document


def test_the_table_adds_up_all_runs() -> None:
    run = {
        "date": "2026-01-02",
        "commit": "abc",
        "seed": 7,
        "minutes": 60,
        "failed": 1,
        "counts": dict.fromkeys(record.COLUMNS, 1_500),
    }
    lines = record.make_table([run, run]).splitlines()
    assert lines[2].startswith("| 2026-01-02 | `abc` | 7 | 60 | 1,500 |")
    assert lines[4].startswith("| **all** |  |  | **120** | **3,000** |")
    assert lines[4].endswith("| **2** |")


def test_a_document_without_its_marks_is_not_written() -> None:
    with pytest.raises(ValueError, match="marks"):
        record.put_into_document("nothing", "| table |")
