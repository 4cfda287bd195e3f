"""Hostile files without end: tables as the world writes them and worse, archives, pictures.

`cases(seed)` gives names and contents. Whatever is in a file, reading it ends in a `Dataset` or in
one sentence. Alone, this file reads some thousands of them and counts what came of it:

    python tests/fuzz_tables.py 0 5000
"""

import io
import itertools
import random
import sys
import warnings
import zipfile
from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from PIL import Image

from labelgrad.inputs.base import Dataset, Encoding
from labelgrad.inputs.kinds import prepare, read

ALONE = Encoding(("none",))  # whatever is installed
NUMBERS = (
    *("0", "1", "-1", "1.5", "1,5", "1,000", "1.234", "1.234,56", "1,234.5", "1'234", "1 234"),
    *(
        "€ 12",
        "12 €",
        "$5",
        "($5)",
        "12 %",
        "12%",
        "0 %",
        "(12)",
        "−5",
        "+3",
        "1e5",
        "1e999",
        "12-",
    ),
    *(
        "1_000",
        "0x10",
        "inf",
        "-inf",
        "nan",
        "1,,5",
        "1..5",
        "..",
        ",",
        "-",
        "--5",
        "٣",
        "½",
        "1e-400",
    ),
    *("9" * 400, "0." + "1" * 400, "1,23,456", "1,2,3", "00123", "１２"),
)
MOMENTS = (
    *(
        "1998-08-07",
        "1998-08-07T10:00Z",
        "07.08.1998",
        "13.08.1998",
        "08/13/98",
        "7/8/98",
        "1/2/03",
    ),
    *("Aug 07 1998", "7 Aug 1998", "August 7, 1998 1:30 pm", "32.01.1998", "30.02.2000", "0/0/0"),
    *("9999-12-31", "0001-01-01", "1998-13-01", "1700000000", "1700000000000", "12:30", "2024-W01"),
    *("29.02.1900", "1998-08-07 25:00", "1/1/1998 13:00 pm", "07.08.1998 10:00 +9999", "2024-060"),
)
WORDS = (
    *(
        "yes",
        "no",
        "TRUE",
        "False",
        "y",
        "n",
        "T",
        "f",
        "on",
        "OFF",
        "a",
        "b",
        "c",
        "",
        "NA",
        "n.a.",
    ),
    *(
        "null",
        "None",
        "#DIV/0!",
        "?",
        "=1+2",
        "@x",
        "\x1b[2J",
        "a\tb",
        "a\rb",
        "a\nb",
        "\u202e",
        "é",
    ),
    *(
        "\U0001f600",
        "x" * 5000,
        "'",
        '"',
        '""',
        " ",
        "\ufeff",
        "\u2028",
        "[bold]",
        "<script>",
        "../a",
    ),
)
HEADERS = (
    "a",
    "b",
    "created_at",
    "date",
    "price",
    "y",
    "",
    "a",
    "\x1b[31m",
    "=x",
    "row",
    "é" * 300,
)
ENCODINGS = ("utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-32", "latin-1", "cp1252", "utf-7")
SCRAPS = (b"", b",", b"\n", b"\r", b'"', b"\0", b"\xff\xfe", b"\xed\xa0\x80", b";", b"\t", b"\x1a")
FORMATS = ("PNG", "JPEG", "GIF", "BMP", "TIFF", "WEBP", "PPM", "ICO", "TGA", "JPEG2000")
SUFFIXES = {"JPEG": "jpg", "TIFF": "tif", "JPEG2000": "jp2"}
TYPES = (
    "f8",
    "f4",
    "f2",
    "i8",
    "i1",
    "u1",
    "u8",
    "?",
    "c16",
    "S3",
    "U2",
    "M8[D]",
    "m8[s]",
    "V4",
    "O",
)


PLAIN_HEADERS = ("a", "b", "created_at", "date", "price", "=x")


def cases(seed):
    """Names and contents of files, without end; the suffix says what each pretends to be."""
    draw = random.Random(seed)
    for number in itertools.count():
        kind = draw.choice(("table", "table", "arrays", "picture"))
        suffix, content = {"table": table, "arrays": arrays, "picture": picture}[kind](draw)
        if draw.random() < 0.4:
            content = mutated(content, draw)
        yield f"{kind}-{seed}-{number}.{suffix}", content


def table(draw):
    """A CSV file whose columns each draw from a pool of awkward cells."""
    columns, rows = draw.randint(1, 6), draw.randint(0, 25)
    separator = draw.choice(",,;;\t|")
    pools = [draw.choice((NUMBERS, MOMENTS, WORDS, NUMBERS + WORDS)) for _ in range(columns)]
    pools = [draw.sample(pool, draw.randint(1, 4)) for pool in pools]
    usual = [*draw.sample(PLAIN_HEADERS, columns - 1), "y"]
    names = usual if draw.random() < 0.9 else draw.sample(HEADERS, columns)
    lines = [names, *([draw.choice(pool) for pool in pools] for _ in range(rows))]
    if draw.random() < 0.7:  # a usual target beside the rest
        lines = [[*line[:-1], ("y", *"pq" * 20, *[""] * 99)[n]] for n, line in enumerate(lines)]
    quoted = draw.random() < 0.8
    text = draw.choice(("\n", "\n", "\r\n", "\r")).join(
        separator.join(_quoted(cell, separator) if quoted else cell for cell in line)
        for line in lines
    )
    encoding = draw.choice(("utf-8",) * 6 + ENCODINGS)
    mark = "\ufeff" if draw.random() < 0.5 and encoding == "utf-16-le" else ""
    return draw.choice(("csv", "csv", "tsv")), (mark + text).encode(encoding, "replace")


def _quoted(cell, separator):
    if any(sign in cell for sign in (separator, '"', "\n", "\r")):
        return '"' + cell.replace('"', '""') + '"'
    return cell


def arrays(draw):
    """An .npz file of odd types and shapes, or with headers that lie."""
    file = io.BytesIO()
    with zipfile.ZipFile(
        file, "w", draw.choice((zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED))
    ) as zipped:
        rows = draw.choice((0, 1, 9, 9, 9, 12))
        for name in draw.choice(("xy", "xy", "xy", "yx", "xz", "x", "xyz")):
            zipped.writestr(f"{name}.npy", _array(draw, rows, 1 if name == "y" else None))
    return "npz", file.getvalue()


def _array(draw, rows, dimensions):
    shape = [rows, *(draw.randint(0, 5) for _ in range((dimensions or draw.randint(1, 4)) - 1))]
    kind = draw.choice(("f8", "f4", "i8", "u1", "i8", "f8") if draw.random() < 0.8 else TYPES)
    with np.errstate(all="ignore"), warnings.catch_warnings(action="ignore"):
        values = np.random.default_rng(draw.getrandbits(32)).normal(size=shape)
        array = (3 * values).astype("i8").astype(kind) if kind not in ("O", "V4") else values
    if array.dtype.kind == "f" and draw.random() < 0.3:
        array.flat[:3] = draw.choice((np.inf, np.nan, 6e4, 0))
    if draw.random() < 0.9:
        packed = io.BytesIO()
        np.save(packed, array, allow_pickle=False)
        return packed.getvalue()
    described = {
        "descr": draw.choice((array.dtype.str, "<f8", "|O", ">i4", "<U9", "x", "<M8[x]")),
        "fortran_order": draw.choice((True, False, 1)),
        "shape": draw.choice(((rows, 3), (-1, 3), (2**40, 2**40), (rows,), (), "x", (1.5,))),
    }
    packed = io.BytesIO()
    head = f"{described}\n".encode()
    packed.write(b"\x93NUMPY" + bytes([draw.choice((1, 2, 3, 9)), 0]))
    packed.write(len(head).to_bytes(2, "little") + head + array.tobytes()[: draw.randint(0, 500)])
    return packed.getvalue()


def picture(draw):
    """A small picture in one of the formats, in one of its modes."""
    kind = draw.choice(FORMATS)
    sides = draw.randint(1, 24), draw.randint(1, 24), 3
    pixels = np.frombuffer(draw.randbytes(sides[0] * sides[1] * 3), np.uint8).reshape(sides)
    mode = draw.choice(("RGB", "L", "P", "1", "RGBA", "CMYK", "I;16", "F"))
    options = {}
    if kind == "TIFF":
        options["compression"] = draw.choice(
            ("raw", "tiff_lzw", "tiff_deflate", "packbits", "jpeg")
        )
    for allowed in (mode, "RGB", "L"):
        file = io.BytesIO()
        try:
            Image.fromarray(pixels).convert(allowed).save(file, kind, **options)
        except (OSError, ValueError, KeyError):
            continue
        break
    return SUFFIXES.get(kind, kind.lower()), file.getvalue()


def mutated(content, draw):
    """The bytes after some of: flips, cuts, repeats, scraps, numbers made huge."""
    changed = bytearray(content)
    for _ in range(draw.randint(1, 8)):
        at = draw.randrange(len(changed) + 1)
        kind = draw.randrange(5)
        if kind == 0 and at < len(changed):
            changed[at] ^= 1 << draw.randrange(8)
        elif kind == 1:
            del changed[at : at + draw.randint(1, 40)]
        elif kind == 2:
            changed[at:at] = changed[at : at + draw.randint(1, 40)]
        elif kind == 3:
            changed[at:at] = draw.choice(SCRAPS)
        else:
            changed[at : at + 4] = draw.choice(
                (b"\xff\xff\xff\xff", b"\0\0\0\0", b"\x7f\xff\xff\xff")
            )
    return bytes(changed)


def came_of(name, content, folder):
    """What reading the file ended in: "read", or the sentence that refused it."""
    place = Path(folder, "data")
    place.mkdir(exist_ok=True)
    for old in place.iterdir():
        old.unlink()
    (place / name).write_bytes(content)
    is_picture = name.startswith("picture")
    if is_picture:
        (place / "labels.csv").write_text(f"file,label\n{name},u\nother.png,v\n")
        Image.new("RGB", (8, 8)).save(place / "other.png")
    path = place if is_picture else place / name
    try:
        try:
            found = read(path, encoding=ALONE)
        except ValueError as error:
            if "--dates" not in str(error):
                raise
            found = read(path, dates="day-first", encoding=ALONE)
        assert isinstance(found, Dataset)
        assert found.x.isfinite().all()
        assert len(found.x) == len(found.y) == len(found.names)
        again = prepare(found.preprocessing, path)
        assert again.x.equal(found.x)
        for text in (*found.classes, *found.names, *found.notes):
            text.encode()
    except (ValueError, OSError) as error:
        return checked(str(error))
    return "read"


def checked(sentence):
    """The sentence, which must be one."""
    assert sentence
    assert "\n" not in sentence
    assert "Errno" not in sentence
    return sentence


def run(seed, count):
    """How often files of each kind were read and refused; all else is an error with its file."""
    ends = Counter()
    with TemporaryDirectory() as folder:
        for name, content in itertools.islice(cases(seed), count):
            try:
                end = came_of(name, content, folder)
            except BaseException as error:
                error.add_note(f"{name}: {content!r}")
                raise
            ends[name.split("-")[0], "read" if end == "read" else "refused"] += 1
    return ends


if __name__ == "__main__":
    for (kind, end), times in sorted(run(int(sys.argv[1]), int(sys.argv[2])).items()):
        sys.stdout.write(f"{kind}: {times} {end}\n")
