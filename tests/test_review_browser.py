"""The page to work on in a real browser: by keyboard, killed in the middle, and nobody's markup."""

import csv
import re
import shutil
import signal
import subprocess

import pytest

from labelgrad.fitting.decisions import FILE, Decisions
from labelgrad.review.training import before_and_after
from tests.command import COMMAND
from tests.review_runs import HOSTILE, SCRIPT, digit_run, picture_run

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
    return picture_run(tmp_path_factory.mktemp("pictures"), count=90)


@pytest.fixture
def run(finished, tmp_path):
    return shutil.copytree(finished, tmp_path / "run")


class Served:
    """`labelgrad review` in a process of its own."""

    def __init__(self, run):
        command = [*COMMAND, "review", str(run), "--no-browser"]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        lines = iter(self.process.stdout.readline, "")
        self.address = next(m.group(0) for line in lines if (m := re.search(r"http://\S+", line)))

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


def decided(page, count):
    """Wait until so many decisions are answered."""
    page.locator("#decided", has_text=re.compile(f"^{count}$")).wait_for()
    page.locator("body:not(.working)").wait_for()


def test_what_was_decided_by_keyboard_survives_a_sigkill(serve, open_page, run):
    served = serve(run)
    page = open_page(served.address, strict=False)  # a server that dies is an error to the console
    page.locator("#look img").wait_for()
    for number in range(6):
        page.keyboard.press(["Enter", "1", "2"][number % 3])
        decided(page, number + 1)
    kept = Decisions(run / FILE).labels()
    assert len(kept) == 6
    served.kill()
    page.keyboard.press("Enter")
    page.locator("#said.wrong", has_text="does not answer").wait_for()
    shows(page, "#decided", "6")
    page.close()

    page = open_page(serve(run).address)
    page.locator("#look img").wait_for()
    decided(page, 6)
    for number in range(6, 9):
        page.keyboard.press("Enter")
        decided(page, number + 1)
    found = Decisions(run / FILE).labels()
    assert len(found) == 9
    assert kept.items() <= found.items()
    page.keyboard.press("Backspace")
    decided(page, 8)
    page.keyboard.press("Backspace")
    decided(page, 7)
    assert len(Decisions(run / FILE)) == 7


def test_a_page_of_the_grid_is_accepted_by_one_key_but_for_what_is_left_out(serve, open_page, run):
    page = open_page(serve(run).address)
    page.locator("#look img").wait_for()
    page.keyboard.press("g")
    page.locator("#sheet img").first.wait_for()
    shown = page.locator("#sheet button").count()
    label = page.locator("#grid-class").inner_text()
    for key in ("ArrowRight", "x", "ArrowRight", "x", "x"):
        page.keyboard.press(key)
    left = page.locator("#sheet [aria-pressed=false]").get_attribute("title")
    page.keyboard.press("Enter")
    decided(page, shown - 1)
    labels = Decisions(run / FILE).labels()
    assert set(labels.values()) == {label}
    assert left not in labels
    page.keyboard.press("g")
    page.locator("#name", has_text=left).wait_for()
    page.keyboard.press("g")
    page.locator("#grid:not([hidden])").wait_for()
    page.locator("body:not(.working)").wait_for()
    page.keyboard.press("Backspace")
    decided(page, 0)


def test_names_are_text_and_nothing_of_them_runs(serve, open_page, run):
    page = open_page(serve(run).address)
    page.locator("#look img").wait_for()
    page.keyboard.press("/")
    page.keyboard.type("onerror")
    page.keyboard.press("Enter")
    page.locator("#name bdi", has_text=HOSTILE).wait_for()
    page.locator("body:not(.working)").wait_for()
    page.keyboard.press("c")  # two classes: all have keys, and the list has them, too
    page.keyboard.type("script")
    shows(page, "#picker-list li", [SCRIPT])
    page.keyboard.press("Enter")
    decided(page, 1)
    assert Decisions(run / FILE).labels() == {HOSTILE: SCRIPT}
    shows(page, "#newest b", [SCRIPT])
    assert page.locator("script").count() == 1
    assert page.locator("img[onerror], img[src=x]").count() == 0


def test_two_reviewers_see_each_other(serve, open_page, run):
    address = serve(run).address
    one, two = open_page(address, strict=False), open_page(address, strict=False)
    for page in (one, two):
        page.locator("#look img").wait_for()
    assert one.locator("#name").inner_text() == two.locator("#name").inner_text()
    one.keyboard.press("2")
    decided(one, 1)
    two.locator("#verdict", has_text="Decided").wait_for()  # without a reload
    decided(two, 1)
    two.locator("#newest .file").wait_for(state="attached")  # folded on a narrow page


def test_an_audit_hides_the_label_and_feeds_the_promise(serve, open_page, run):
    page = open_page(serve(run).address + "#audit")
    page.locator("#look img").wait_for()
    assert page.locator("#options .figure, #witnesses tr, #near li").count() == 0
    assert page.locator("#accept").is_disabled()
    page.keyboard.press("1")
    decided(page, 1)
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    decided(page, 2)
    shows(page, "#promise-needs", re.compile("2 audits"))
    assert {one.how for one in Decisions(run / FILE).all_standing()} == {"audit"}


def test_the_page_never_scrolls_sideways(serve, open_page, run):
    page = open_page(serve(run).address)
    page.locator("#look img").wait_for()
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
        page.locator("#look img").wait_for()
        style = "getComputedStyle(document.body)"
        colours.append([page.evaluate(f"{style}.{name}") for name in ("color", "backgroundColor")])
    assert colours[0][0] != colours[1][0]
    assert colours[0][1] != colours[1][1]


def test_fifty_true_answers_a_sigkill_and_training_anew_lower_the_error(serve, open_page, tmp_path):
    run, truth = digit_run(tmp_path)
    wrong_before = share_wrong(run, truth)
    served, done = serve(run), 0
    for until in (25, 50):
        page = open_page(served.address)
        page.locator("#look img").wait_for()
        decided(page, done)
        for done in range(done + 1, until + 1):  # noqa: B020 - goes on where it was
            name = page.locator("#name bdi").inner_text()
            page.keyboard.press(truth[name])  # a class that is a digit has its own key
            decided(page, done)
        if until == 25:
            page.close()
            served.kill()
            served = serve(run)
    assert all(truth[name] == label for name, label in Decisions(run / FILE).labels().items())
    page.locator("#train").click()
    page.set_default_timeout(200_000)
    page.locator("#before-after table").wait_for()
    page.locator("#train-what", has_text="Nothing was decided since").wait_for()
    found = before_and_after(run)
    assert found["judged"] == 30
    for what in ("expected_wrong", "loss"):
        assert found["after"][what] < found["before"][what]
    for when in ("before", "after"):
        shows(page, "#before-after", re.compile(f"{100 * found[when]['expected_wrong']:.1f}"))
    assert share_wrong(run, truth) < wrong_before


def share_wrong(run, truth):
    """The share of all labels in labels.csv that are wrong in truth."""
    with (run / "labels.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    return sum(truth[row["file"]] != row["label"] for row in rows) / len(rows)
