"""A run folder is of one result, as it was written, and one process at a time writes into it."""

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
import zipfile

import numpy as np
import pytest
from safetensors.torch import load, save

import labelgrad
from labelgrad.files import read_sealed, read_tensors
from labelgrad.fitting import conclusion
from labelgrad.fitting.run_folder import (
    DIGESTS,
    LOCK,
    check_not_in_use,
    in_use,
    read_digests,
    write_files,
)
from tests.command import labelgrad_here, one_sentence

EDITABLE = ("labels.csv",)


def data(rows=60, labeled=20, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(rows, 4))
    y = np.where(np.arange(rows) < labeled, x[:, 0] > 0, -1)
    return x, y


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    folder = tmp_path_factory.mktemp("whole") / "run"
    labelgrad.fit(*data(), steps=5, out=folder, keep_pool=True)
    return folder


@pytest.fixture
def run(whole, tmp_path):
    """A copy to be damaged."""
    return shutil.copytree(whole, tmp_path / "run")


def answer(run):
    """What a person gets to see of a run."""
    result = labelgrad.load(run)
    said = [result.predict(data()[0], pool=pool).columns() for pool in (False, True)]
    return said, result.labels, result.examples, result.verdict, result.page


def test_every_file_that_is_read_has_a_digest(run):
    files = {str(path.relative_to(run)) for path in run.rglob("*") if path.is_file()}
    in_itself = {"plan.json", "source.json", "labeled.safetensors", DIGESTS}
    others = {name for name in files - in_itself if not name.startswith("checkpoint")}
    assert set(read_digests(run).of) == others
    for name in in_itself & files - {"labeled.safetensors"}:
        read_sealed((run / name).read_bytes())
    read_tensors(run / "labeled.safetensors")


def test_a_bit_in_any_file_is_noticed_or_changes_nothing(run, whole):
    wanted, rng = answer(whole), np.random.default_rng(0)
    for name in [*read_digests(run).of, DIGESTS]:
        path, content = run / name, (run / name).read_bytes()
        for cut in (False, True):
            place = int(rng.integers(len(content)))
            changed = content[place:] if cut else bytearray(content)
            if not cut:
                changed[place] ^= 1 << int(rng.integers(8))
            path.write_bytes(changed)
            refused, notes = "", []
            try:
                found, notes = answer(run), labelgrad.load(run).notes
            except ValueError as error:
                refused = str(error)
            assert "\n" not in refused
            assert not refused or path.name in refused, "it names the file"
            assert refused or notes or found == wanted
            assert not notes or name in EDITABLE
        path.write_bytes(content)


def test_a_person_may_change_the_labels_and_it_is_said(run):
    path = run / "labels.csv"
    head, first, *rest = path.read_text().splitlines()
    name, label, *others = first.split(",")
    other = "1" if label == "0" else "0"
    path.write_text("\n".join([head, ",".join([name, other, *others]), *rest]) + "\n")
    assert labelgrad.load(run).labels[0].label == other
    said = labelgrad_here("labels", run)
    assert said.returncode == 0
    assert "labels.csv was changed after the run." in said.stdout
    path.write_text(path.read_text().replace(f"\n{name},{other}", f"\n{name},horse"))
    assert "'horse' is no class of the run" in one_sentence(labelgrad_here("labels", run))
    path.write_text(path.read_text().replace(f"\n{name},horse", f"\n{name}000,1"))
    assert "no unlabeled examples of the run" in one_sentence(labelgrad_here("labels", run))


@pytest.mark.parametrize("beside", [True, False])
def test_a_run_on_texts_is_read_again(tmp_path, beside):
    words = np.array(["good warm day", "bad cold rain"])
    rows = [f"{words[row % 2]} number {row}" for row in range(30)]
    table = tmp_path / "days.csv"
    cells = [f"{text}{f',{row * 7 % 5}.5' if beside else ''}" for row, text in enumerate(rows)]
    labeled = [f"{cell},{'yn'[row % 2] if row < 12 else ''}" for row, cell in enumerate(cells)]
    table.write_text("\n".join([f"text{',size' if beside else ''},label", *labeled]))
    fitted = labelgrad.fit(table, steps=2, witnesses="", encoder="none", out=tmp_path / "run")
    again = labelgrad.load(tmp_path / "run").predict(table)
    assert again.columns() == fitted.predict(table).columns()


def craft(run, **changes):
    """Change the config as somebody would who means harm, with a digest that is right."""
    config = json.loads((run / "config.json").read_text())
    for name, value in changes.items():
        config.pop(name) if value is None else config.update({name: value})
    write_files(run, {"config.json": json.dumps(config).encode()})


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"format": 99}, "in format 99"),
        ({"classes": None}, "lacks 'classes'"),
        ({"classes": ["0"]}, "`classes`"),
        ({"classes": ["0", "0"]}, "`classes`"),
        ({"classes": ["0", "1", "2"]}, "does not fit its network"),
        ({"classes": "01"}, "must be a list"),
        ({"classes": [0, 1]}, "must be a text"),
        ({"task": "clustering"}, "`task`"),
        ({"task": "regression"}, "`classes`"),
        ({"temperature": 0}, "`temperature`"),
        ({"temperature": "1"}, "must be a number"),
        ({"factor": 0}, "`factor`"),
        ({"shape": [5]}, "the network takes (5,)"),
        ({"shape": [1, 10**6, 10**6]}, "numbers"),
        ({"shape": []}, "`shape`"),
        ({"network": "wrn-9994-1"}, "has 9994"),
        ({"network": "mlp" + "-9999" * 30}, "layers"),
        ({"network": "mlp-9999-9999"}, "does not fit its network"),
        ({"network": "../mlp"}, "does not fit its network"),
        ({"kind": "pictures"}, "of pictures"),
        ({"kind": "sounds"}, "must be one of"),
        ({"preprocessing": {}}, "`preprocessing`"),
        ({"margin": -1}, "`margin`"),
        ({"own": 1}, "strange 'own'"),
    ],
)
def test_a_crafted_config_is_refused_in_one_sentence(run, changes, said):
    craft(run, **changes)
    refused = one_sentence(labelgrad_here("predict", run, "nowhere.npz"))
    assert said in refused


def test_crafted_weights_are_refused(run):
    weights = load((run / "model.safetensors").read_bytes())
    for wrong in (b"", b"none", save({}), save(dict(list(weights.items())[1:]))):
        write_files(run, {"model.safetensors": wrong})
        with pytest.raises(ValueError, match="does not fit its network"):
            labelgrad.load(run)


def test_weights_that_are_not_numbers_are_told_and_not_written(run):
    weights = load((run / "model.safetensors").read_bytes())
    write_files(run, {"model.safetensors": save({k: v * float("nan") for k, v in weights.items()})})
    with pytest.raises(ValueError, match="nothing finite about 60 of 60 examples"):
        labelgrad.load(run).predict(data()[0])


def test_an_archive_that_unpacks_to_gigabytes_is_not_unpacked(run, tmp_path):
    path = tmp_path / "bomb.npz"
    with (
        zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive,
        archive.open("rows.npy", "w", force_zip64=True) as file,
    ):
        np.lib.format.write_array_header_1_0(
            file, {"descr": "<f8", "fortran_order": False, "shape": (2**23,)}
        )
        for _ in range(64):
            file.write(bytes(2**20))
    write_files(run, {"held_out.npz": path.read_bytes()})
    with pytest.raises(ValueError, match="too much"):
        labelgrad.load(run)


def test_a_write_that_was_cut_short_is_not_read_and_a_resume_mends_it(run, whole):
    shutil.copy(run / "config.json", run / "labels.csv")  # as if it were half of the next result
    (run / DIGESTS).unlink()
    with pytest.raises(FileNotFoundError, match="holds no finished run"):
        labelgrad.load(run)
    labelgrad.fit(*data(), out=run, resume=True)
    for name in ("labels.csv", "config.json", "model.safetensors"):
        assert (run / name).read_bytes() == (whole / name).read_bytes()


# Going on


def test_changed_data_are_refused_though_there_are_as_many(tmp_path):
    x, y = data()
    labelgrad.fit(x, y, steps=5, out=tmp_path / "run")
    for place in (0, 59):  # a labeled row, and an unlabeled one
        other = x.copy()
        other[place, 2] += 1e-3
        with pytest.raises(ValueError, match="as many examples, and some are others"):
            labelgrad.fit(other, y, out=tmp_path / "run", resume=True)
    swapped = y.copy()
    swapped[[0, 1]] = y[[1, 0]] if y[0] != y[1] else 1 - y[[0, 1]]
    with pytest.raises(ValueError, match="The data are not those"):
        labelgrad.fit(x, swapped, out=tmp_path / "run", resume=True)


def test_a_kill_in_the_very_first_write_leaves_a_folder_to_begin_in(tmp_path):
    run = tmp_path / "run"
    run.mkdir()
    (run / ".plan.json.partial").write_bytes(b'{"ver')
    (run / LOCK).write_text("1\n")
    for resume in (True, False):
        shutil.copytree(run, tmp_path / f"copy{resume}")
        labelgrad.fit(*data(), steps=5, out=tmp_path / f"copy{resume}", resume=resume)
    left = sorted(path.name for path in (tmp_path / "copyTrue").iterdir())
    assert not [name for name in left if name.startswith(".")]


def test_a_damaged_plan_is_refused(run):
    path = run / "plan.json"
    path.write_bytes(path.read_bytes().replace(b'"seed": 0', b'"seed": 1'))
    with pytest.raises(ValueError, match="does not match its digest"):
        labelgrad.fit(*data(), out=run, resume=True)


def test_a_damaged_record_of_a_training_is_refused(run):
    (path, *_) = (run / "checkpoint").glob("*/metrics.jsonl")
    path.write_bytes(path.read_bytes().replace(b'"loss": ', b'"loss":1', 1))
    with pytest.raises(RuntimeError, match="to train that anew"):
        labelgrad.fit(*data(), out=run, resume=True)


# One at a time


HOLD = """
import sys, time
from pathlib import Path
from labelgrad.fitting.run_folder import in_use
with in_use(Path(sys.argv[1])):
    print("held", flush=True)
    time.sleep(600)
"""


def test_a_folder_in_use_is_refused_with_the_process_and_a_dead_one_lets_go(tmp_path, run):
    command = [sys.executable, "-c", HOLD, run]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as holder:
        assert holder.stdout.readline() == b"held\n"
        for resume in (True, False):
            with pytest.raises(ValueError, match=f"in use by process {holder.pid}"):
                labelgrad.fit(*data(), out=run, resume=resume)
        corrections = tmp_path / "corrections.csv"
        corrections.write_text("row,label\n30,1\n31,0\n32,1\n")
        said = one_sentence(labelgrad_here("labels", run, "--corrections", corrections))
        assert f"in use by process {holder.pid}" in said
        assert len(labelgrad.load(run).predict(data()[0])) == 60, "reading is free"
        holder.kill()
    labelgrad.fit(*data(), out=run, resume=True)


def test_a_lock_without_a_number_yet_is_waited_for(tmp_path):
    import fcntl

    with (tmp_path / LOCK).open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        later = threading.Timer(0.05, lambda: (lock.write("12345\n"), lock.flush()))
        later.start()
        with pytest.raises(ValueError, match="in use by process 12345"):
            check_not_in_use(tmp_path)
        later.join()


def test_of_threads_that_begin_in_one_folder_one_does(tmp_path):
    at_once, entered, refused = threading.Barrier(4), [], []

    def enter():
        at_once.wait()
        try:
            with in_use(tmp_path / "new" / "run"):
                entered.append(1)
                time.sleep(0.2)
        except ValueError as error:
            refused.append(str(error))

    threads = [threading.Thread(target=enter) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (len(entered), len(refused)) == (1, 3)
    assert all(str(os.getpid()) in said for said in refused)
    # One who is refused may have made the folder, and it then stays; no file does.
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]


def test_a_folder_of_which_nothing_came_is_removed(tmp_path):
    (tmp_path / "mine").mkdir()
    for folder in (tmp_path / "new" / "run", tmp_path / "mine"):
        with in_use(folder):
            assert (folder / LOCK).exists()
    assert [path.name for path in tmp_path.rglob("*")] == ["mine"]


# Ctrl-C


def test_one_ctrl_c_while_the_result_is_worked_out_is_heard_and_the_result_kept(
    tmp_path, monkeypatch
):
    hear, pressed = conclusion.hear_witnesses, []

    def press(*arguments, **options):
        os.kill(os.getpid(), signal.SIGINT)
        pressed.append(1)
        return hear(*arguments, **options)

    monkeypatch.setattr(conclusion, "hear_witnesses", press)
    with pytest.warns(UserWarning, match="once more ends at once"):
        labelgrad.fit(*data(), steps=5, out=tmp_path / "run")
    assert pressed
    assert not labelgrad.load(tmp_path / "run").summary.stopped


def test_a_second_one_ends_at_once_and_a_resume_works_the_result_out(tmp_path, monkeypatch):
    def press(*arguments, **options):
        for _ in range(2):
            os.kill(os.getpid(), signal.SIGINT)
        time.sleep(10)

    with monkeypatch.context() as patch:
        patch.setattr(conclusion, "hear_witnesses", press)
        with pytest.warns(UserWarning, match="will be kept"), pytest.raises(KeyboardInterrupt):
            labelgrad.fit(*data(), steps=5, out=tmp_path / "run")
    labelgrad.fit(*data(), out=tmp_path / "run", resume=True)
    assert len(labelgrad.load(tmp_path / "run").labels) == 40


def test_one_in_the_training_and_one_in_the_result_are_two(tmp_path, monkeypatch):
    hear = conclusion.hear_witnesses

    def press(*arguments, **options):
        os.kill(os.getpid(), signal.SIGINT)
        return hear(*arguments, **options)

    monkeypatch.setattr(conclusion, "hear_witnesses", press)
    with pytest.raises(KeyboardInterrupt):
        labelgrad.fit(
            *data(),
            steps=60,
            out=tmp_path / "run",
            on_record=lambda record: record["step"] == 30 and os.kill(os.getpid(), signal.SIGINT),
        )
    assert not (tmp_path / "run" / "config.json").exists()
