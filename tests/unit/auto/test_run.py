"""A run folder holds one whole result, is written by one process at a time, and can be resumed."""

import errno
import json
import multiprocessing
import os
import shutil
import signal
import time
from dataclasses import fields

import numpy as np
import pytest

import labelgrad
from labelgrad import FitConfig, load
from labelgrad.auto.annotations import Annotation, log_of
from labelgrad.auto.config import Options
from labelgrad.auto.run import Manifest, RunFolder, in_use, write_result_files
from labelgrad.files import read_sealed, sealed_json
from tests.unit.auto.small_fit import arrays, fit_until_killed, small_fit

EDITABLE = "labels.csv"


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """The result of a fit."""
    folder = tmp_path_factory.mktemp("whole") / "run"
    return small_fit(*arrays(), out=folder, keep_ensemble=True)


@pytest.fixture(scope="module")
def whole(saved):
    """The folder of a whole run."""
    return saved.folder


@pytest.fixture
def run(whole, tmp_path):
    """A copy to be damaged."""
    return shutil.copytree(whole, tmp_path / "run")


def files_of(folder, without=()):
    """The content of all files; seconds differ from run to run."""
    found = {}
    for path in sorted(folder.rglob("*")):
        name = str(path.relative_to(folder))
        if path.is_file() and not name.startswith(("checkpoints", *without)):
            found[name] = path.read_bytes()
    return found


def without_seconds(folder):
    files = files_of(folder, without=["manifest.json", "report.html"])
    saved = json.loads(files["result.json"])
    saved["about"]["seconds"] = 0
    for score in saved["evaluation"]["scores"]:
        score["seconds"] = 0
    return files | {"result.json": saved}


def test_type_checkers_see_every_option():
    assert list(Options.__annotations__) == [each.name for each in fields(FitConfig)]


def visible(folder):
    """What a person gets to see of a run."""
    result, X = load(folder), arrays()[0]
    tables = [result.predict(X, ensemble=ensemble).frame() for ensemble in (False, True)]
    board = result.leaderboard()
    return [t.write_csv() for t in (*tables, result.labels, board)], result.summary, result.page


def test_every_file_has_a_digest(whole):
    names = {name for name in files_of(whole) if name not in ("manifest.json", "config.json")}
    assert names == set(Manifest.of(whole).files)
    for name in ("manifest.json", "config.json"):
        read_sealed((whole / name).read_bytes())


def test_a_loaded_result_is_the_one_that_was_saved(saved):
    X, fitted, loaded = arrays()[0], saved, load(saved.folder)
    for name in ("held_out", "base_model_predictions"):
        models, again = (list(getattr(one, name).predictions) for one in (fitted, loaded))
        assert models == again  # in the same order
    assert loaded.labels.equals(fitted.labels)
    assert loaded.summary == fitted.summary
    assert loaded.config == fitted.config
    assert loaded.about == fitted.about
    assert loaded.digest == fitted.digest
    for ensemble in (False, True):
        one, two = (r.predict(X, ensemble=ensemble).prediction for r in (fitted, loaded))
        np.testing.assert_allclose(one, two, atol=1e-12)
    for name, prediction in fitted.held_out.predictions.items():
        np.testing.assert_array_equal(loaded.held_out.predictions[name], prediction)


def test_a_changed_bit_is_noticed_or_changes_nothing(run, whole):
    wanted, rng = visible(whole), np.random.default_rng(0)
    for name in [*Manifest.of(run).files, "manifest.json"]:
        path, content = run / name, (run / name).read_bytes()
        for cut in (False, True):
            place = int(rng.integers(len(content)))
            changed = content[place:] if cut else bytearray(content)
            if not cut:
                changed[place] ^= 1 << int(rng.integers(8))
            path.write_bytes(changed)
            refused, notes, found = "", (), None
            try:
                found, notes = visible(run), load(run).load_notes
            except (ValueError, FileNotFoundError) as error:
                refused = str(error)
            assert "\n" not in refused
            assert not refused or path.name in refused, "the sentence names the file"
            assert refused or notes or found == wanted
            assert not notes or name == EDITABLE
        path.write_bytes(content)


def test_a_lost_file_is_named(run):
    for name in Manifest.of(run).files:
        content = (run / name).read_bytes()
        (run / name).unlink()
        with pytest.raises(ValueError, match=name.rpartition("/")[2]):
            visible(run)
        (run / name).write_bytes(content)


def test_labels_that_a_person_has_changed_are_used_with_a_note(run):
    path = run / "labels.csv"
    head, *rows = path.read_text().splitlines()
    cells = rows[-1].split(",")
    cells[1] = "1" if cells[1] == "0" else "0"
    path.write_text("\n".join([head, *rows[:-1], ",".join(cells)]) + "\n")
    result = load(run)
    assert result.labels["label"][-1] == cells[1]
    assert result.load_notes == ("labels.csv was changed after the run.",)
    path.write_text("\n".join([head, *rows[:-1], "999" + rows[-1]]) + "\n")
    with pytest.raises(ValueError, match=r"labels\.csv cannot be used \(its examples are not"):
        load(run)


def test_resuming_a_finished_run_gives_the_same_files(run, whole):
    small_fit(*arrays(), out=run, resume=True)
    assert without_seconds(run) == without_seconds(whole)


def test_options_are_those_of_the_run_unless_given_again(run):
    with RunFolder.open(run, resume=True) as opened:
        config = opened.resolve(None, {"seed": 5})
        assert (config.base_models, config.steps) == (("linear", "neighbours"), 20)
        assert config.seed == 5
        assert opened.resolve(FitConfig(steps=7), {}).steps == 7


def test_objects_that_no_file_holds_must_be_given_again(tmp_path):
    from sklearn.naive_bayes import GaussianNB

    X, y = arrays()
    small_fit(X, y, out=tmp_path / "run", estimators={"mine": GaussianNB()})
    with (
        pytest.raises(ValueError, match="begun with an object as `estimators`"),
        RunFolder.open(tmp_path / "run", resume=True) as run,
    ):
        run.resolve(None, {})


@pytest.mark.parametrize("change", ["X", "y"])
def test_other_data_are_refused(run, change):
    X, y = arrays()
    if change == "X":
        X[3, 2] += 1e-3
    else:
        y[30] = 1
    with pytest.raises(ValueError, match="The data differ from those that the run"):
        small_fit(X, y, out=run, resume=True)


def test_annotations_are_learned_from_and_checkpoints_of_before_are_removed(run):
    before = small_fit(*arrays(), out=run, resume=True, base_models="linear,lga")
    keys = [path.name for path in (run / "checkpoints").iterdir()]
    name = before.labels["row"][40]
    other = "1" if before.labels["label"][40] == "0" else "0"
    log_of(before).add([Annotation(name, other, "correction", before.digest)])
    (run / "my-hand-labels.csv").write_text("mine")
    after = small_fit(*arrays(), out=run, resume=True)
    assert after.labels["label"][40] == other
    assert after.labels["source"][40] == "corrected"
    assert after.digest != before.digest
    assert (run / "my-hand-labels.csv").read_text() == "mine"
    assert keys
    assert not set(keys) & {path.name for path in (run / "checkpoints").iterdir()}


def test_files_of_an_earlier_result_are_removed_only_if_they_are_unchanged(tmp_path, monkeypatch):
    monkeypatch.setattr("labelgrad.auto.stacking.fit_weights", lambda *given: given[3])  # equal
    run = tmp_path / "run"
    small_fit(*arrays(), out=run, keep_ensemble=True)
    first, second = sorted(path.name for path in (run / "ensemble").glob("*.s*"))
    (run / "ensemble" / second).write_bytes(b"a person's own")
    small_fit(*arrays(), out=run, resume=True, keep_ensemble=False)
    left = [path.name for path in (run / "ensemble").iterdir()]
    assert left == [second]
    with pytest.raises(ValueError, match="no saved ensemble; fit again with keep_ensemble"):
        load(run).predict(arrays()[0], ensemble=True)
    assert first != second


def test_a_folder_with_files_of_somebody_else_is_left_alone(tmp_path):
    (tmp_path / "labels.csv").write_text("file,label\n")
    with pytest.raises(ValueError, match=r"holds a labels\.csv but no config.json of a run"):
        small_fit(*arrays(), out=tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["labels.csv"]


def test_a_run_is_not_overwritten_and_a_missing_one_not_resumed(run, tmp_path):
    with pytest.raises(ValueError, match="already holds a run; use --resume"):
        small_fit(*arrays(), out=run)
    with pytest.raises(FileNotFoundError, match=r"no run folder .* to resume"):
        small_fit(*arrays(), out=tmp_path / "nowhere", resume=True)
    assert not (tmp_path / "nowhere").exists()
    (tmp_path / "file").write_text("")
    with pytest.raises(ValueError, match="is a file; choose another"):
        small_fit(*arrays(), out=tmp_path / "file")
    with pytest.raises(FileNotFoundError, match="There is no run folder"):
        load(tmp_path / "nowhere")


def test_folders_of_other_versions_are_refused_with_what_to_do(run, tmp_path):
    old = tmp_path / "old"
    old.mkdir()
    (old / "config.json").write_text('{"format": 3, "labelgrad": "0.9"}')
    for use in (load, lambda place: small_fit(*arrays(), out=place, resume=True)):
        with pytest.raises(ValueError, match=r"earlier version .*; fit again into another folder"):
            use(old)
    saved = read_sealed((run / "manifest.json").read_bytes())
    (run / "manifest.json").write_bytes(sealed_json(saved | {"format": 99, "version": "7.0"}))
    with pytest.raises(ValueError, match=r"labelgrad 7\.0 in format 99"):
        load(run)


def test_a_run_that_fails_leaves_no_folder(tmp_path):
    X, y = arrays()
    with pytest.raises(ValueError, match="no label"):
        small_fit(X, np.full(len(y), -1), out=tmp_path / "a" / "run")
    assert not (tmp_path / "a").exists()


def test_one_process_writes_at_a_time(tmp_path):
    folder, processes = tmp_path / "run", multiprocessing.get_context("fork")
    locked = processes.Event()

    def lock():
        with in_use(folder):
            locked.set()
            time.sleep(60)

    other = processes.Process(target=lock)
    other.start()
    try:
        assert locked.wait(60)
        with pytest.raises(ValueError, match=f"is in use by process {other.pid};"), in_use(folder):
            pass
    finally:
        other.kill()
        other.join()
    with in_use(folder):  # the lock of a dead process counts for nothing
        (folder / "mine").write_text("")
    assert [path.name for path in folder.iterdir()] == ["mine"]


def test_a_full_disk_leaves_the_result_of_before(run, whole, monkeypatch):
    real, left = os.fsync, [3]

    def fsync(handle):
        if not left[0]:
            raise OSError(errno.ENOSPC, "No space left on device")
        left[0] -= 1
        real(handle)

    before = files_of(run)
    monkeypatch.setattr(os, "fsync", fsync)
    with pytest.raises(OSError, match="could not be written"):
        write_result_files(run, dict.fromkeys(before, b"new"))
    monkeypatch.undo()
    assert files_of(run) == before
    assert visible(run) == visible(whole)


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    """A run with networks, which have checkpoints."""
    folder = tmp_path_factory.mktemp("undisturbed") / "run"
    small_fit(*arrays(), out=folder, base_models="linear,lga")
    return folder


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2))
def test_a_run_killed_anywhere_is_resumed_to_the_same_bytes(tmp_path, undisturbed, seed):
    rng, folder = np.random.default_rng(seed), tmp_path / "run"
    processes = multiprocessing.get_context("forkserver")
    processes.set_forkserver_preload([small_fit.__module__])  # PyTorch is imported once
    for _ in range(4):
        killed = processes.Process(
            target=fit_until_killed, args=(folder, int(rng.integers(1, 60)), folder.exists())
        )
        killed.start()
        killed.join()
        assert killed.exitcode in (0, -signal.SIGKILL)
    if not (folder / "config.json").exists():
        shutil.rmtree(folder, ignore_errors=True)
    small_fit(*arrays(), out=folder, resume=folder.exists(), base_models="linear,lga")
    assert without_seconds(folder) == without_seconds(undisturbed)


def test_nothing_is_written_without_a_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    result = small_fit(*arrays())
    assert result.folder is None
    assert not list(tmp_path.iterdir())


def test_processes_write_checkpoints_into_the_run_after_a_change_of_directory(
    tmp_path, monkeypatch
):
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
        monkeypatch.chdir(tmp_path / name)
        labelgrad.fit(*arrays(), out=name, base_models="linear,lga", steps=20, workers=2)
    assert [path.name for path in sorted(tmp_path.glob("*/*"))] == ["first", "second"]


def test_options_of_other_types_are_read_as_text():
    config = FitConfig(target=3, ignore=[0, "age"], base_models=["linear", 5.0])
    assert (config.target, config.ignore, config.base_models) == (
        "3",
        ("0", "age"),
        ("linear", "5.0"),
    )
