import numpy as np
import pytest

from labelgrad import FitConfig
from labelgrad.auto.data.dataset import preprocessor_from_dict, read


def test_data_that_nothing_reads(tmp_path):
    with pytest.raises(FileNotFoundError, match="There is no file or folder"):
        read(tmp_path / "absent.csv")
    (tmp_path / "a.doc").touch()
    with pytest.raises(ValueError, match="Data must be a table"):
        read(tmp_path / "a.doc")


def test_options_of_another_kind_are_refused():
    with pytest.raises(ValueError, match="`target` is for data of the kind table"):
        read(np.eye(3), [0, 1, -1], FitConfig(target="a"))


def test_labels_beside_a_file_are_refused(tmp_path):
    (tmp_path / "a.csv").write_text("a,y\n1,p\n")
    with pytest.raises(ValueError, match="`y` is for arrays"):
        read(tmp_path / "a.csv", [0])


def test_preprocessors_of_unknown_kinds_are_refused():
    with pytest.raises(ValueError, match="got 'sounds'"):
        preprocessor_from_dict({"kind": "sounds"})
