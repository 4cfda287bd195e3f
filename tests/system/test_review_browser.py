"""The review page in a real browser: by keyboard, killed in the middle, with hostile names."""

import re
import shutil
import signal
import subprocess
import sys

import polars as pl
import pytest

from labelgrad import load
from labelgrad.auto.annotations import AnnotationLog
from labelgrad.auto.queue import review_list
from labelgrad.auto.server.retraining import compare_results
from tests.system.review_runs import HOSTILE, SCRIPT, digit_run, image_run, table_run
from tests.unit.auto.fake_runs import FILE

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        CHROMIUM is None,
        reason="needs the browser chromium; install the system's package `chromium`",
    ),
]


@pytest.fixture(scope="module")
def browser():
    from playwright.sync_api import sync_playwright

    with sync_playwright() as play:
        started = play.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield started
        started.close()


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    return image_run(tmp_path_factory.mktemp("images"), count=90)


@pytest.fixture
def run(finished, tmp_path):
    return shutil.copytree(finished, tmp_path / "run")


class Served:
    """`labelgrad review` in a process of its own."""

    def __init__(self, run):
        command = [sys.executable, "-m", "labelgrad", "review", str(run), "--no-browser"]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        lines = iter(self.process.stdout.readline, "")
        found = (m.group(0) for line in lines if (m := re.search(r"http://\S+", line)))
        self.address = next(found, None)
        if self.address is None:
            self.kill()
            pytest.fail("labelgrad review printed no address.")

    def kill(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.stdout.close()
        self.process.wait()


@pytest.fixture
def serve():
    started = []

    def begin(run):
        started.append(Served(run))
        return started[-1]

    yield begin
    for served in started:
        if served.process.poll() is None:
            served.kill()


@pytest.fixture
def open_page(browser):
    """Open the page; whatever the browser complains of, asks or loads elsewhere fails the test."""
    complaints, opened = [], []

    def load(address, *, strict=True, **options):
        page = browser.new_page(**({"viewport": {"width": 1200, "height": 900}} | options))
        opened.append(page)
        page.set_default_timeout(20_000)
        if strict:
            page.on("console", lambda message: complaints.append(message.text))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("dialog", lambda dialog: (complaints.append(dialog.message), dialog.dismiss()))
        own = address.split("#")[0]
        page.on("request", lambda r: None if r.url.startswith(own) else complaints.append(r.url))
        page.goto(address)
        return page

    yield load
    for page in opened:
        page.close()
    assert complaints == []


def shows(page, place, text):
    """Wait until the page has this text there: it comes in its own time."""
    from playwright.sync_api import expect

    expect(page.locator(place)).to_have_text(text, timeout=20_000)


def annotated(page, count):
    """Wait until this many examples are annotated."""
    page.locator("#annotated", has_text=re.compile(f"^{count}$")).wait_for()
    page.locator("body:not(.working)").wait_for()


def test_annotations_by_keyboard_survive_a_sigkill(serve, open_page, run):
    served = serve(run)
    page = open_page(served.address, strict=False)  # a server that dies is an error to the console
    page.locator("#view img").wait_for()
    for number in range(6):
        page.keyboard.press(["Enter", "1", "2"][number % 3])
        annotated(page, number + 1)
    kept = labels_of(run)
    assert len(kept) == 6
    served.kill()
    page.keyboard.press("Enter")
    page.locator("#message.wrong", has_text="does not answer").wait_for()
    shows(page, "#annotated", "6")
    page.close()

    page = open_page(serve(run).address)
    page.locator("#view img").wait_for()
    annotated(page, 6)
    for number in range(6, 9):
        page.keyboard.press("Enter")
        annotated(page, number + 1)
    found = labels_of(run)
    assert len(found) == 9
    assert kept.items() <= found.items()
    page.keyboard.press("Backspace")
    annotated(page, 8)
    page.keyboard.press("Backspace")
    annotated(page, 7)
    assert len(labels_of(run)) == 7


def test_ten_keys_in_a_fifth_of_a_second_are_ten_annotations_in_their_order(serve, open_page, run):
    result = load(run)
    expected = review_list(result, 11)["file"].to_list()
    page = open_page(serve(run).address)
    page.locator("#view img").wait_for()
    page.locator("body:not(.working)").wait_for()
    keys = "1212211212"
    for key in keys:
        page.keyboard.press(key)
        page.wait_for_timeout(20)
    annotated(page, 10)
    chosen = [result.task.classes[int(key) - 1] for key in keys]
    assert labels_of(run) == dict(zip(expected, chosen, strict=False))
    shows(page, "#example-id bdi", expected[10])
    for _ in range(3):  # whatever the page is doing
        page.keyboard.press("Backspace")
    annotated(page, 7)
    assert labels_of(run) == dict(zip(expected[:7], chosen, strict=False))


def test_a_double_click_or_a_key_held_down_is_one_annotation(serve, open_page, run):
    page = open_page(serve(run).address)
    page.locator("#view img").wait_for()
    page.locator("#accept").dblclick()
    annotated(page, 1)
    page.locator("#options button").first.dblclick()
    annotated(page, 2)
    for _ in range(5):
        page.keyboard.down("Enter")
    page.keyboard.up("Enter")
    annotated(page, 3)
    page.wait_for_timeout(200)
    annotated(page, 3)


def test_the_neighbours_of_a_row_show_their_cells(serve, open_page, tmp_path):
    run = table_run(tmp_path)
    rows = pl.read_csv(tmp_path / "data.csv", infer_schema=False)
    page = open_page(serve(run).address)
    page.locator("#near li").first.wait_for()
    for near in page.locator("#near li").all():
        row = rows.row(int(near.get_attribute("title")) - 1, named=True)
        text = near.inner_text()
        assert row["first"] in text and row["second"] in text and row["answer"] in text
    for width in (320, 390, 1280):
        page.set_viewport_size({"width": width, "height": 800})
        assert page.evaluate("document.documentElement.scrollWidth") == width


def test_values_typed_at_once_are_annotations_in_their_order(serve, open_page, tmp_path):
    run = table_run(tmp_path, values=True)
    expected = review_list(load(run), 3)["row"].to_list()
    page = open_page(serve(run).address)
    page.locator("#value-input").wait_for()
    page.locator("body:not(.working)").wait_for()
    for typed in ("1.5", "-2", "0.25"):
        for key in (*typed, "Enter"):
            page.keyboard.press(key)
    annotated(page, 3)
    assert labels_of(run) == dict(zip(expected, [1.5, -2.0, 0.25], strict=True))


def test_a_page_of_the_grid_is_accepted_by_one_key_but_for_what_is_left_out(serve, open_page, run):
    page = open_page(serve(run).address)
    page.locator("#view img").wait_for()
    page.keyboard.press("g")
    page.locator("#sheet img").first.wait_for()
    shown = page.locator("#sheet button").count()
    label = page.locator("#grid-class").inner_text()
    for key in ("ArrowRight", "x", "ArrowRight", "x", "x"):
        page.keyboard.press(key)
    left = page.locator("#sheet [aria-pressed=false]").get_attribute("title")
    page.keyboard.press("Enter")
    annotated(page, shown - 1)
    labels = labels_of(run)
    assert set(labels.values()) == {label}
    assert left not in labels
    page.keyboard.press("g")
    page.locator("#example-id", has_text=left).wait_for()
    page.keyboard.press("g")
    page.locator("#grid:not([hidden])").wait_for()
    page.locator("body:not(.working)").wait_for()
    page.keyboard.press("Backspace")
    annotated(page, 0)


def test_names_are_text_and_nothing_of_them_runs(serve, open_page, run):
    page = open_page(serve(run).address)
    page.locator("#view img").wait_for()
    page.keyboard.press("/")
    page.keyboard.type("onerror")
    page.keyboard.press("Enter")
    page.locator("#example-id bdi", has_text=HOSTILE).wait_for()
    page.locator("body:not(.working)").wait_for()
    page.keyboard.press("c")  # two classes: all have keys, and the list has them, too
    page.keyboard.type("script")
    shows(page, "#picker-list li", [SCRIPT])
    page.keyboard.press("Enter")
    annotated(page, 1)
    assert labels_of(run) == {HOSTILE: SCRIPT}
    shows(page, "#newest b", [SCRIPT])
    assert page.locator("script").count() == 1
    assert page.locator("img[onerror], img[src=x]").count() == 0


def test_two_reviewers_see_each_other(serve, open_page, run):
    address = serve(run).address
    one, two = open_page(address, strict=False), open_page(address, strict=False)
    for page in (one, two):
        page.locator("#view img").wait_for()
    assert one.locator("#example-id").inner_text() == two.locator("#example-id").inner_text()
    one.keyboard.press("2")
    annotated(one, 1)
    two.locator("#summary", has_text="Annotated").wait_for()  # without a reload
    annotated(two, 1)
    two.locator("#newest .file").wait_for(state="attached")  # folded on a narrow page


def test_an_audit_hides_the_label_and_feeds_the_guarantee(serve, open_page, run):
    page = open_page(serve(run).address + "#audit")
    page.locator("#view img").wait_for()
    assert page.locator("#options .figure, #base-models tr, #near li").count() == 0
    assert page.locator("#accept").is_disabled()
    page.keyboard.press("1")
    annotated(page, 1)
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    annotated(page, 2)
    shows(page, "#guarantee-needs", re.compile("2 audits"))
    assert {one.how for one in AnnotationLog(run / FILE).annotations()} == {"audit"}


def test_the_page_never_scrolls_sideways(serve, open_page, run):
    page = open_page(serve(run).address)
    page.locator("#view img").wait_for()
    for key, shown in (("", "#options button"), ("g", "#sheet img"), ("a", "#options button")):
        page.locator("body:not(.working)").wait_for()
        if key:
            page.keyboard.press(key)
        page.locator(shown).first.wait_for()
        for width in (320, 390, 768, 1280):
            page.set_viewport_size({"width": width, "height": 800})
            assert page.evaluate("document.documentElement.scrollWidth") == width, (key, width)


def test_dark_mode_has_colours_of_its_own(serve, open_page, run):
    address = serve(run).address
    colours = []
    for scheme in ("light", "dark"):
        page = open_page(address, color_scheme=scheme)
        page.locator("#view img").wait_for()
        style = "getComputedStyle(document.body)"
        colours.append([page.evaluate(f"{style}.{name}") for name in ("color", "backgroundColor")])
    assert colours[0][0] != colours[1][0]
    assert colours[0][1] != colours[1][1]


def test_fifty_true_answers_a_sigkill_and_retraining_lower_the_error(serve, open_page, tmp_path):
    run, truth = digit_run(tmp_path)
    before, wrong_before = load(run), share_wrong(run, truth)
    served, done = serve(run), 0
    for until in (25, 50):
        page = open_page(served.address)
        page.locator("#view img").wait_for()
        annotated(page, done)
        for done in range(done + 1, until + 1):  # noqa: B020 - goes on where it was
            name = page.locator("#example-id bdi").inner_text()
            page.keyboard.press(truth[name])  # a class that is a digit has its own key
            annotated(page, done)
        if until == 25:
            page.close()
            served.kill()
            served = serve(run)
    assert all(truth[name] == label for name, label in labels_of(run).items())
    page.locator("#retrain").click()
    page.set_default_timeout(200_000)
    page.locator("#before-after table").wait_for()
    page.locator("#retrain-what", has_text="no new annotation").wait_for()
    found = compare_results(before, load(run))
    assert found["held_out"] == 30
    assert found["after"]["expected_error"] < found["before"]["expected_error"]
    for when in ("before", "after"):
        share = f"{100 * found[when]['expected_error']:.1f}".removesuffix(".0")
        shows(page, "#before-after", re.compile(f"{share} %"))
    assert share_wrong(run, truth) < wrong_before


def labels_of(run):
    """The newest annotation of each example."""
    return {one.id: one.label for one in AnnotationLog(run / FILE).annotations()}


def share_wrong(run, truth):
    """The share of imputed labels that are wrong."""
    imputed = load(run).labels.filter(pl.col("source") == "imputed")
    wrong = [truth[name] != label for name, label in imputed[:, :2].rows()]
    return sum(wrong) / len(wrong)
