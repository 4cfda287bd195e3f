"""Files of data sets: downloaded whole or not at all, resumed and checked, from a real server."""

import gzip
import hashlib
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from labelgrad.datasets import files
from labelgrad.datasets.files import RemoteFile, contents, data_folder, fetch

BODY = bytes(range(256)) * 40  # 10,240 bytes, no two neighbouring pieces alike


class Handler(BaseHTTPRequestHandler):
    """Serves BODY under every name but /missing, as the server's switches say."""

    def do_GET(self):
        shop = self.server
        shop.asked.append((self.path, self.headers.get("Range")))
        start = 0
        if self.headers.get("Range") and shop.knows_ranges:
            start = int(self.headers["Range"].removeprefix("bytes=").removesuffix("-"))
        if self.path == "/missing" or start >= len(BODY):
            self.send_error(404 if self.path == "/missing" else 416)
            return
        self.send_response(206 if start else 200)
        self.send_header("Content-Length", str(len(BODY) - start))
        self.end_headers()
        self.wfile.write(BODY[start : shop.cut_at])
        self.wfile.flush()
        if shop.stalls:
            shop.over.wait(10)

    def log_message(self, *_):
        pass


@pytest.fixture
def server(monkeypatch):
    monkeypatch.setenv("no_proxy", "*")
    shop = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    shop.asked, shop.knows_ranges, shop.cut_at, shop.stalls = [], True, None, False
    shop.over = threading.Event()
    thread = threading.Thread(target=shop.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield shop
    shop.over.set()
    shop.shutdown()
    thread.join()
    shop.server_close()


def remote(server, name="data.bin", body=BODY):
    url = f"http://127.0.0.1:{server.server_port}/{name}"
    return RemoteFile(url, f"md5:{hashlib.md5(body).hexdigest()}", len(BODY))


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_a_missing_file_is_downloaded_once(server, tmp_path):
    folder = tmp_path / "not" / "there"
    fetch([remote(server)], folder)
    fetch([remote(server)], folder)
    assert (folder / "data.bin").read_bytes() == BODY
    assert names(folder) == ["data.bin"]
    assert server.asked == [("/data.bin", None)]


def test_a_file_put_there_by_hand_is_left_alone(server, tmp_path):
    (tmp_path / "data.bin").write_bytes(b"mine")
    fetch([remote(server)], tmp_path)
    assert (tmp_path / "data.bin").read_bytes() == b"mine"
    assert not server.asked


def test_a_cut_download_goes_on_where_it_stopped(server, tmp_path):
    server.cut_at = 3000
    with pytest.raises(OSError, match=r"the connection broke after 3,000 of 10,240 bytes"):
        fetch([remote(server)], tmp_path)
    assert names(tmp_path) == ["data.bin.partial"]
    server.cut_at = None
    fetch([remote(server)], tmp_path)
    assert (tmp_path / "data.bin").read_bytes() == BODY
    assert names(tmp_path) == ["data.bin"]
    assert server.asked[1] == ("/data.bin", "bytes=3000-")


def test_a_resumed_download_may_be_cut_again(server, tmp_path):
    for server.cut_at in (2000, 5000):
        with pytest.raises(OSError, match=f"after {server.cut_at:,} of 10,240 bytes"):
            fetch([remote(server)], tmp_path)
    server.cut_at = None
    fetch([remote(server)], tmp_path)
    assert (tmp_path / "data.bin").read_bytes() == BODY


def test_a_server_without_ranges_sends_everything_anew(server, tmp_path):
    server.knows_ranges = False
    (tmp_path / "data.bin.partial").write_bytes(BODY[:3000])
    fetch([remote(server)], tmp_path)
    assert (tmp_path / "data.bin").read_bytes() == BODY


def test_a_download_killed_before_its_check_is_finished_without_another(server, tmp_path):
    (tmp_path / "data.bin.partial").write_bytes(BODY)
    fetch([remote(server)], tmp_path)
    assert (tmp_path / "data.bin").read_bytes() == BODY


def test_a_wrong_checksum_leaves_nothing_behind(server, tmp_path):
    wanted = remote(server, body=b"something else")
    with pytest.raises(OSError, match=r"data\.bin from http.* try again") as caught:
        fetch([wanted], tmp_path)
    assert wanted.checksum in str(caught.value)
    assert hashlib.md5(BODY).hexdigest() in str(caught.value)
    assert names(tmp_path) == []


def test_a_partial_file_of_something_else_is_downloaded_afresh_at_the_next_try(server, tmp_path):
    (tmp_path / "data.bin.partial").write_bytes(b"?" * 3000)
    with pytest.raises(OSError, match="checksum"):
        fetch([remote(server)], tmp_path)
    fetch([remote(server)], tmp_path)
    assert (tmp_path / "data.bin").read_bytes() == BODY


def test_without_a_network_one_message_says_which_files_to_put_where(server, tmp_path):
    (tmp_path / "here.bin").write_bytes(BODY)
    near = [remote(server, "here.bin"), remote(server, "near.bin")]
    away = [RemoteFile(f"http://127.0.0.1:1/{n}.bin", "md5:0", 9) for n in "ab"]
    with pytest.raises(OSError, match=r"^a\.bin could not be downloaded \(.*refused") as caught:
        fetch([*near, *away], tmp_path)
    said = str(caught.value)
    assert f"put these 2 files into {tmp_path} yourself" in said
    assert said.endswith("yourself: http://127.0.0.1:1/a.bin, http://127.0.0.1:1/b.bin.")
    assert names(tmp_path) == ["here.bin", "near.bin"]


def test_a_host_without_the_file_is_told_apart(server, tmp_path):
    with pytest.raises(OSError, match=r"missing could not be downloaded \(HTTP Error 404"):
        fetch([remote(server, "missing")], tmp_path)


def test_a_silent_host_is_given_up(server, tmp_path, monkeypatch):
    monkeypatch.setattr(files, "TIMEOUT", 0.2)
    server.cut_at, server.stalls = 3000, True
    with pytest.raises(OSError, match="timed out"):
        fetch([remote(server)], tmp_path)
    assert names(tmp_path) == ["data.bin.partial"]


def test_progress_counts_the_bytes_of_all_missing_files(server, tmp_path, monkeypatch):
    monkeypatch.setattr(files, "PIECE", 4096)
    (tmp_path / "b.partial").write_bytes(BODY[:1000])
    heard = []
    wanted = [remote(server, "a"), remote(server, "b")]
    fetch(wanted, tmp_path, lambda done, total: heard.append((done, total)))
    assert {total for _, total in heard} == {2 * len(BODY)}
    done = [count for count, _ in heard]
    assert done == [0, 4096, 8192, 10240, 11240, 15336, 19432, 20480]


def test_a_file_has_its_name_only_when_it_is_whole(server, tmp_path, monkeypatch):
    monkeypatch.setattr(files, "PIECE", 1024)
    seen = []
    fetch([remote(server)], tmp_path, lambda *_: seen.append(names(tmp_path)))
    assert len(seen) == 11
    assert all(found == ["data.bin.partial"] for found in seen)


def test_an_interrupted_download_keeps_what_it_has(server, tmp_path, monkeypatch):
    monkeypatch.setattr(files, "PIECE", 1024)

    def interrupt(done, total):
        if done >= 2048:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fetch([remote(server)], tmp_path, interrupt)
    fetch([remote(server)], tmp_path)
    assert server.asked[1] == ("/data.bin", "bytes=2048-")
    assert (tmp_path / "data.bin").read_bytes() == BODY


def test_only_web_addresses_are_downloaded():
    with pytest.raises(ValueError, match="https or http, got 'file:///etc/hosts'"):
        RemoteFile("file:///etc/hosts", "md5:0", 1)


def test_the_folder_is_the_given_one_then_the_environments_then_the_cache(monkeypatch, tmp_path):
    monkeypatch.setenv("LABELGRAD_DATA", str(tmp_path))
    assert data_folder("given") == Path("given")
    assert data_folder() == tmp_path
    monkeypatch.setenv("LABELGRAD_DATA", "")
    assert data_folder().name == "labelgrad"
    assert data_folder("~/pictures") == Path.home() / "pictures"


def test_what_is_inside_a_gz_is_read_and_checked(tmp_path):
    path, checksum = tmp_path / "data.gz", f"sha256:{hashlib.sha256(BODY).hexdigest()}"
    for level in (1, 9):  # compressed otherwise, the same inside
        path.write_bytes(gzip.compress(BODY, level))
        assert contents(path, checksum) == BODY
    path.write_bytes(gzip.compress(BODY[:-1]))
    with pytest.raises(ValueError, match=r"data\.gz must have the checksum sha256:.*10,239 bytes"):
        contents(path, checksum)


def test_a_missing_or_damaged_file_is_one_sentence(tmp_path):
    path, packed = tmp_path / "data.gz", gzip.compress(BODY)
    with pytest.raises(FileNotFoundError, match=r"data\.gz is missing"):
        contents(path)
    broken = packed[:60] + bytes(8) + packed[68:]
    for bad in (packed[:-20], packed[:5], broken, b"<html>not here</html>"):
        path.write_bytes(bad)
        with pytest.raises(ValueError, match=r"data\.gz is cut off or damaged"):
            contents(path)
