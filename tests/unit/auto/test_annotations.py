"""The log of annotations: what is written is read, what is damaged is skipped, files are taken."""

import json
import multiprocessing
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from labelgrad.auto.annotations import (
    Annotation,
    AnnotationLog,
    Draw,
    Undo,
    current,
    take_corrections,
)
from labelgrad.auto.data.dataset import Dataset
from labelgrad.auto.task import Classification, Regression
from tests.unit.auto.fake_runs import FILE, classification_run, regression_run

NAMES = st.sampled_from("abc")
ENTRIES = st.one_of(
    st.builds(Annotation, NAMES, st.sampled_from(["cat", "dog"]), st.just("accept")),
    st.builds(Undo, NAMES),
)


@given(st.lists(ENTRIES, max_size=20))
def test_an_undo_withdraws_the_newest_annotation(entries):
    stacks = {}
    for entry in entries:
        stack = stacks.setdefault(entry.id, [])
        if isinstance(entry, Annotation):
            stack.append(entry)
        elif stack:
            stack.pop()
    assert current(entries) == {name: stack for name, stack in stacks.items() if stack}


def test_what_is_written_is_read_again(tmp_path):
    log = AnnotationLog(tmp_path / FILE)
    log.add([Annotation("ä.png", "gräu", "choose", "m", "me", "bee", 0.5)])
    log.add([Annotation("b.png", 1.5, "audit")])
    log.add([Draw(("b.png", "c.png"), 2**63 + 1, 100, "m")])
    log.add([Undo("nothing")])
    again = AnnotationLog(tmp_path / FILE)
    assert again.lines == 4
    one = again.current("ä.png")
    assert (one.label, one.model, one.by, one.shown, one.shown_confidence, one.line) == (
        *("gräu", "m", "me", "bee", 0.5),
        1,
    )
    assert one.time > 1e9
    assert again.training_labels() == {"ä.png": "gräu"}  # audits are not trained on
    (draw,) = again.draws
    assert (draw.ids, draw.seed, draw.population) == (("b.png", "c.png"), 2**63 + 1, 100)


def test_a_correction_outlives_a_later_audit_and_its_undo(tmp_path):
    log = AnnotationLog(tmp_path / FILE)
    log.add([Annotation("1", "cat", "accept"), Annotation("1", "dog", "audit")])
    assert log.training_labels() == {"1": "cat"}
    assert [one.label for one in log.newest(audits=True)] == ["dog"]
    log.add([Undo("1")])
    assert log.newest(audits=True) == []
    assert log.training_labels() == {"1": "cat"}


DAMAGED = [
    b"",
    b"{",
    b"[1, 2]",
    b'{"id": "1"}',
    b'{"id": 7, "label": "cat", "how": "accept"}',
    b'{"id": "1", "label": ["cat"], "how": "accept"}',
    b'{"id": "1", "label": true, "how": "accept"}',
    b'{"id": "1", "label": NaN, "how": "accept"}',
    b'{"id": "1", "label": "cat", "how": "guess"}',
    b'{"id": "1", "label": "cat", "how": "accept", "time": "now"}',
    b'{"id": "1", "label": "cat", "how": "accept", "shown": {}}',
    b'{"draw": "abc", "seed": 1, "population": 2}',
    b'{"draw": ["1"], "seed": null, "population": 2}',
    b"[" * 100_000,
    '{"id": "1", "label": "caf\xe9", "how": "accept"}'.encode("latin-1"),
    '{"id": "1", "label": "cat", "how": "accept"}'.encode("utf-16"),
]


@pytest.mark.parametrize("line", DAMAGED)
def test_a_damaged_line_is_skipped_and_reported(tmp_path, line):
    log = AnnotationLog(tmp_path / FILE)
    log.add([Annotation("1", "cat", "accept")])
    with log.path.open("ab") as file:
        file.write(line + b"\n")
    log.add([Annotation("2", "dog", "accept")])
    again = AnnotationLog(log.path)
    assert again.training_labels() == log.training_labels() == {"1": "cat", "2": "dog"}
    assert [number for number, _ in again.damaged] == [2]
    assert "in line 2" in again.notes[0]


@given(st.lists(st.binary(max_size=80), max_size=5))
def test_any_bytes_can_be_read(tmp_path_factory, lines):
    path = tmp_path_factory.mktemp("log") / FILE
    path.write_bytes(b"\n".join(lines) + b"\n")
    assert AnnotationLog(path).lines == (b"\n".join(lines) + b"\n").count(b"\n")


def test_half_a_line_is_left_to_its_writer(tmp_path):
    path = tmp_path / FILE
    whole = json.dumps({"id": "1", "label": "cat", "how": "accept"}).encode()
    path.write_bytes(whole[:20])
    log = AnnotationLog(path)
    assert not log.annotations()
    assert not log.damaged
    path.write_bytes(whole + b"\n")
    log.refresh()
    assert log.training_labels() == {"1": "cat"}


def _append(path, who):
    log = AnnotationLog(path)
    for number in range(50):
        log.add([Annotation(f"{who}-{number}", "cat", "accept", by=who)])


def test_several_processes_append(tmp_path):
    path = tmp_path / FILE
    context = multiprocessing.get_context("fork")
    writers = [context.Process(target=_append, args=(path, who)) for who in "ab"]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    log = AnnotationLog(path)
    assert len(log.annotations()) == 100
    assert not log.damaged


def _dataset(y, task):
    preprocessor = SimpleNamespace(kind="arrays", id_name="row")
    return Dataset(
        np.zeros((len(y), 1), np.float32), y, task, list(map(str, range(len(y)))), preprocessor
    )


def test_labels_are_put_into_the_data_and_new_classes_extend_the_task(tmp_path):
    log = AnnotationLog(tmp_path / FILE)
    log.add([Annotation("1", "bat", "choose"), Annotation("0", "dog", "choose")])
    log.add([Annotation("7", "dog", "choose"), Annotation("3", "dog", "audit")])
    task = Classification(("cat", "dog"))
    found = log.applied_to(_dataset(np.array([0, -1, 1, -1]), task))
    assert found.task.classes == ("bat", "cat", "dog")
    assert found.task.display(found.y) == ["dog", "bat", "dog", None]
    assert any("1 of them" in note for note in found.notes)
    assert any("not in the data" in note for note in found.notes)


def test_values_are_put_into_the_data(tmp_path):
    log = AnnotationLog(tmp_path / FILE)
    log.add([Annotation("1", 14.0, "choose")])
    found = log.applied_to(_dataset(np.array([0.0, np.nan]), Regression(10.0, 2.0)))
    np.testing.assert_allclose(found.y, [0, 2])


def test_labels_that_are_all_the_same_are_refused(tmp_path):
    log = AnnotationLog(tmp_path / FILE)
    log.add([Annotation("1", "cat", "choose")])
    with pytest.raises(ValueError, match="every label is the same"):
        log.applied_to(_dataset(np.array([1, 1]), Classification(("dog", "cat"))))


def test_corrections_are_taken_once(tmp_path):
    run = classification_run(folder=tmp_path)
    file = tmp_path / "look.csv"
    imputed = run.labels.filter(run.labels["source"] == "imputed")
    rows = imputed["row"][:3].to_list()
    given_row = run.labels.filter(run.labels["source"] == "given").row(0, named=True)
    lines = [f"{rows[0]},cow", f"{rows[1]},", f"{rows[2]},bee"]
    file.write_text("\n".join(["row,label", *lines, f"{given_row['row']},{given_row['label']}"]))
    assert "2 new labels;" in take_corrections(run, file)  # the given label is not news
    assert "nothing new" in take_corrections(run, file)
    log = AnnotationLog(tmp_path / FILE)
    assert log.training_labels() == {rows[0]: "cow", rows[2]: "bee"}
    one = log.current(rows[0])
    assert (one.model, one.how, one.shown) == (run.digest, "correction", imputed["label"][0])


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("row,label\n999,cow", "not in the run"),
        ("row,label\n1,cwo", "did you mean 'cow'"),
        ("row,label\n1,cow\n1,bee", "two labels"),
        ("id,label,why\n1,cow,", "must have the columns row and label"),
        (b"row,label\n1,caf\xe9", "UTF-8"),
    ],
)
def test_wrong_files_of_corrections_are_refused(tmp_path, content, message):
    file = tmp_path / "look.csv"
    file.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(ValueError, match=message):
        take_corrections(classification_run(folder=tmp_path), file)
    assert not (tmp_path / FILE).exists()


def test_spreadsheet_files_are_read(tmp_path):
    file = tmp_path / "look.csv"
    file.write_bytes('row;label;note\r\n1;cow;"a\r\nb"\r\n2;elk;\r\n'.encode("utf-16"))
    run = classification_run(folder=tmp_path, labeled=0)
    assert "2 new labels," in take_corrections(run, file, new_classes=True)
    assert AnnotationLog(tmp_path / FILE).training_labels() == {"1": "cow", "2": "elk"}


def test_values_of_a_file_must_be_finite(tmp_path):
    file, run = tmp_path / "look.csv", regression_run(folder=tmp_path)
    file.write_text("row,label\n150,inf\n")
    with pytest.raises(ValueError, match="finite"):
        take_corrections(run, file)
    file.write_text("row,label\n150,12.5\n")
    assert "1 new labels;" in take_corrections(run, file)


def test_without_a_folder_nothing_can_be_written(tmp_path):
    file = tmp_path / "look.csv"
    file.write_text("row,label\n1,cow\n2,cow\n3,bee\n")
    with pytest.raises(ValueError, match="fit with `out`"):
        take_corrections(classification_run(), file)
