"""The page in a real browser: it filters, loads nothing, fits a phone, and runs no one's markup."""

import shutil

import pytest

from labelgrad.report.charts import NAMES as ROOM
from labelgrad.report.page import render
from tests.report_samples import pictures, regression, result, table

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
SCRIPT = "<script>alert(1)</script>"
NAMES = (SCRIPT, '"><img src=x onerror=alert(1)>', "w" * 300)
SHOWN = ".group:not([hidden]) [data-label]:not([hidden])"

pytestmark = pytest.mark.skipif(
    CHROMIUM is None, reason="needs the browser chromium; install the system's package `chromium`"
)


@pytest.fixture(scope="module")
def browser():
    from playwright.sync_api import sync_playwright

    with sync_playwright() as play:
        started = play.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield started
        started.close()


@pytest.fixture
def open_page(browser, tmp_path):
    """Open a report; whatever the browser complains of, asks or loads fails the test."""
    complaints, opened = [], []

    def load(data, **options):
        path = tmp_path / "report.html"
        path.write_bytes(render(data).encode())
        url = path.as_uri()
        page = browser.new_page(**({"viewport": {"width": 1200, "height": 900}} | options))
        opened.append(page)
        page.set_default_timeout(10_000)
        page.on("console", lambda message: complaints.append(message.text))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("dialog", lambda dialog: (complaints.append(dialog.message), dialog.dismiss()))
        page.on("request", lambda request: complaints.extend(_foreign(request.url, url)))
        page.goto(url)
        return page

    yield load
    for page in opened:
        page.close()
    assert complaints == []


def _foreign(asked, own):
    return [] if asked == own or asked.startswith("data:") else [asked]


def test_filters_by_group_and_by_class_with_the_mouse(open_page):
    page = open_page(pictures(NAMES))
    assert page.locator(SHOWN).count() == 2
    page.get_by_role("button", name="All").click()
    assert page.locator(SHOWN).count() == 7
    assert page.get_by_role("status").inner_text() == "7 of 7 shown"
    page.get_by_role("combobox", name="Label").select_option(label=SCRIPT)
    assert page.locator(SHOWN).count() == 3
    assert page.locator(SHOWN).locator("strong").all_inner_texts() == [SCRIPT] * 3
    page.get_by_role("button", name="Surest").click()
    assert page.locator(SHOWN).count() == 1
    assert page.get_by_role("button", pressed=True).all_inner_texts() == ["Surest"]


def test_filters_by_the_keyboard_alone(open_page):
    page = open_page(pictures(NAMES))
    page.get_by_role("link", name="Imputed labels").focus()
    page.keyboard.press("Tab")
    focused = "document.activeElement.textContent"
    while page.evaluate(focused) != "Most contested":
        page.keyboard.press("Tab")
    outline = "getComputedStyle(document.activeElement).outlineStyle"
    assert page.evaluate(outline) == "solid"
    for _ in range(3):
        page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    assert page.locator(SHOWN).count() == 7
    page.keyboard.press("Tab")
    page.keyboard.press("ArrowDown")
    assert page.get_by_role("status").inner_text() == "3 of 7 shown"


def test_nothing_that_fits_is_said(open_page):
    page = open_page(pictures())
    page.get_by_role("combobox", name="Label").select_option(label="bird")
    assert page.locator(SHOWN).count() == 0
    assert page.get_by_role("status").inner_text() == "None of these fits."


def test_names_are_text_and_nothing_of_them_runs(open_page):
    page = open_page(pictures(NAMES, note=SCRIPT, file=SCRIPT, data=SCRIPT))
    assert page.locator("h1").inner_text() == SCRIPT
    assert page.locator("script").count() == 1
    assert page.locator("img[onerror], img[src=x]").count() == 0


@pytest.mark.parametrize("width", [320, 360, 768])
@pytest.mark.parametrize("sample", [pictures, table, regression])
def test_the_page_never_scrolls_sideways(open_page, sample, width):
    names = {"names": NAMES[: 2 if sample is table else 3]} if sample is not regression else {}
    page = open_page(sample(data="w" * 300, **names), viewport={"width": width, "height": 800})
    assert page.evaluate("document.documentElement.scrollWidth") == width


@pytest.mark.parametrize("width", [320, 380, 768, 1200])
def test_many_witnesses_with_long_names_fit(open_page, width):
    names = tuple(f"{place} {'w' * 300}" for place in range(12))
    many = pictures(result=result(names=names))
    page = open_page(many, viewport={"width": width, "height": 800})
    assert page.evaluate("document.documentElement.scrollWidth") == width
    shown = page.locator("#result figure text.name")
    assert max(shown.evaluate_all("all => all.map(each => each.getBBox().width)")) < ROOM + 10


def test_dark_mode_has_colours_of_its_own(open_page):
    colours = [_colours(open_page(pictures(), color_scheme=scheme)) for scheme in ("light", "dark")]
    assert all(light != dark for light, dark in zip(*colours, strict=True))
    for text, paper, _ in colours:
        assert _contrast(text, paper) > 7


def _colours(page):
    style = "element => getComputedStyle(document.querySelector(element))"
    return [
        page.evaluate(f"({style})('body').color"),
        page.evaluate(f"({style})('body').backgroundColor"),
        page.evaluate(f"({style})('.line.method').stroke"),
    ]


def _contrast(first, second):
    """The ratio of luminances that the web's guidelines for accessible content define."""
    lighter, darker = sorted((_luminance(first), _luminance(second)), reverse=True)
    return (lighter + 0.05) / (darker + 0.05)


def _luminance(colour):
    parts = [int(part) / 255 for part in colour.strip("rgb()").split(",")]
    linear = [
        part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts
    ]
    return sum(weight * part for weight, part in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


def test_without_scripts_everything_is_shown(open_page):
    page = open_page(table(), java_script_enabled=False)
    assert page.locator("#filters").is_hidden()
    assert page.locator("tr[data-label]").count() == 4
