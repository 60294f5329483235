"""Odd and wrong tables: a right result, or one line that says what is wrong."""

import gzip
import io
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import budgetline
from budgetline.datasets import load_bank

N = 60
RNG = np.random.default_rng(0)
A = [f"{value:.3f}" for value in RNG.normal(size=N)]
COLOURS = RNG.choice(["red", "green", "blue"], N).tolist()
Y = ["yes" if float(a) + (colour == "red") > 0.3 else "no" for a, colour in zip(A, COLOURS, strict=True)]


def table(header, *columns, mark=",", end="\n"):
    """Return a file as bytes; values are written as they are, without quotes."""
    return (end.join([mark.join(header), *(mark.join(row) for row in zip(*columns, strict=True))]) + end).encode()


def with_x(x, **style):
    return table(["a", "x", "y"], A, list(x), Y, **style)


def turns(*values):
    return [values[k % len(values)] for k in range(N)]


def design(*labels):
    """Return what a becomes, with what x becomes: curves of x if nothing is given."""
    return ["a~1", "a~2", *(labels or ("x~1", "x~2"))]


LONG = "v" * 20_000
LEVELS = design("x=blue", "x=green", "x=red")
ALL = ["a~1", "a~2", "x~1", "x~2"]

RIGHT = {
    # what the columns become in the model
    "numbers and words": (with_x(a if k % 3 else "high" for k, a in enumerate(A)), design("x", "x=(missing)")),
    "all missing": (with_x([""] * N), design("x=(missing)")),
    "nothing but ?": (with_x(["?"] * N), design("x=(missing)")),
    "nothing but NaN": (with_x(["NaN"] * N), design("x=(missing)")),
    "nothing but spaces": (with_x(["   "] * N), design("x=(missing)")),
    "one gap": (with_x("" if k == 7 else a for k, a in enumerate(A)), [*design(), "x=(missing)"]),
    "one value": (with_x(a if k == 7 else "" for k, a in enumerate(A)), design("x", "x=(missing)")),
    "one level": (with_x(["same"] * N), design("x=same")),
    "constant": (with_x(["7"] * N), design("x")),
    "ids": (with_x(f"u{k:05}" for k in range(N)), design("x=(rare)")),
    "dates": (with_x(f"20{10 + k % 12}-0{1 + k % 9}-1{k % 9}" for k in range(N)), design()),
    "moments": (with_x(f"2020-01-{10 + k % 20} 1{k % 9}:00:00" for k in range(N)), design()),
    "times of day": (with_x(f"1{k % 9}:{k % 49 + 10}:00" for k in range(N)), design()),
    "huge integers": (with_x(str(10**25 + k * 10**23) for k in range(N)), ALL),
    "exponents and signs": (with_x(f"+{k}e{k % 5}" for k in range(N)), ALL),
    "negative zero": (with_x(turns("-0.0", "0", "1")), design("x")),
    "levels like numbers": (with_x(turns("01", "02", "1a")), design("x=01", "x=02", "x=1a")),
    "spaces around text": (with_x(turns(" red", "red", "blue")), design("x=blue")),
    "unicode": (with_x(turns("Zürich", "東京", "🙂")), design("x=Zürich", "x=東京", "x=🙂")),
    "control characters": (with_x(turns("a\x00b", "\x1b[2J")), design("x=a\x00b")),
    "a level called (missing)": (with_x(turns("(missing)", "b", "")), design("x=(missing)", "x=b", "x=(missing) (2)")),
    "long values": (with_x(LONG + c for c in COLOURS), [label.replace("=", f"={LONG}") for label in LEVELS]),
    "thousands": (with_x(f'"{1000 + k * 37:,}"' for k in range(N)), ALL),
    "decimal commas": (table("axy", *([v.replace(".", ",") for v in column] for column in (A, A, Y)), mark=";"), ALL),
    "True, False": (with_x(turns("True", "False")), design("x=True")),
    "TRUE, FALSE and gaps": (with_x(turns("TRUE", "FALSE", "")), design("x=False", "x=True", "x=(missing)")),
    "yes, no": (with_x(turns("yes", "no")), design("x=yes")),
    "quoted lines": (with_x(f'"{c}\nmore"' for c in COLOURS), design("x=blue\nmore", "x=green\nmore", "x=red\nmore")),
    "quoted delimiters": (with_x(f'"{c}, so"' for c in COLOURS), design("x=blue, so", "x=green, so", "x=red, so")),
    "quoted quotes": (with_x(f'"a ""{c}"""' for c in COLOURS), design('x=a "blue"', 'x=a "green"', 'x=a "red"')),
    "tabs": (with_x(COLOURS, mark="\t"), LEVELS),
    "bars": (with_x(COLOURS, mark="|"), LEVELS),
    "byte order mark": (b"\xef\xbb\xbf" + with_x(COLOURS), LEVELS),
    "delimiters at the end": (with_x(COLOURS).replace(b"\n", b",\n"), LEVELS),
    "CRLF": (with_x(COLOURS, end="\r\n"), LEVELS),
    "CR": (with_x(COLOURS, end="\r"), LEVELS),
    "blank lines": (with_x(COLOURS).replace(b"\n", b"\n\n"), LEVELS),
    "compressed": (gzip.compress(with_x(COLOURS)), LEVELS),
    "the target again": (with_x(Y), design("x=yes")),
    "2 rows": (b"a,x,y\n1,red,yes\n2,blue,no\n", ["a", "x=(rare)"]),
    "row names": (table(["", "a", "x", "y"], map(str, range(N)), A, COLOURS, Y), LEVELS),
    "more columns than rows": (
        table([*(f"c{k}" for k in range(40)), "y"], *(RNG.normal(size=(40, 9)).astype(str)), turns("yes", "no")[:9]),
        [f"c{k}" for k in range(40)],
    ),
}  # fmt: skip


def shares_of(text):
    """Return the probabilities that were printed, by class."""
    return pd.read_csv(io.StringIO(text)).rename(columns=lambda name: name[2:-1])


WHOLE = ("--no-cv", "--all-groups", "--keep-ids")
"""Options with which all columns are bought, in memory as from chunks."""


@pytest.mark.slow
@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize("name", RIGHT)
def test_right_answers(name, run):
    content, expected = RIGHT[name]
    Path("data.csv").write_bytes(content)
    # of a wide table, alpha from rows in memory and from chunks may be neighbours on the grid
    options = (*WHOLE, "--alpha", "0.1") if name == "more columns than rows" else WHOLE
    fitted = run("fit", "data.csv", "-t", "y", "-o", "m", "--rule", "score", *options)
    assert fitted.code == 0, fitted.err
    assert budgetline.load("m").feature_names_out_.tolist() == expected
    for line in fitted.err.splitlines():
        assert len(line) < 250
        assert line.isprintable()
    assert ("too rare to learn from: x;" in fitted.err) == (expected[-1:] == ["x=(rare)"] and "x=high" not in expected)
    found = run("predict", "m", "data.csv", "--proba")
    assert found.code == 0, found.err
    shares = shares_of(found.out)
    np.testing.assert_allclose(shares.sum(axis=1), 1)
    if len(shares) == N:  # y follows from a and the colours
        assert (shares.idxmax(axis=1) == Y).mean() > 0.75
    assert run("fit", "data.csv", "-t", "y", "-o", "streamed", "--stream", *options).code == 0
    np.testing.assert_allclose(shares_of(run("predict", "streamed", "data.csv", "--proba").out), shares, atol=1e-6)


@pytest.mark.slow
def test_100_000_levels(run):
    rows = 100_020
    levels = [f"v{k}" for k in range(100_000)] + ["v0"] * 20
    Path("data.csv").write_bytes(table("axy", (A * 1667)[:rows], levels, (Y * 1667)[:rows]))
    fitted = run("fit", "data.csv", "-t", "y", "-o", "m", "--rule", "score", *WHOLE)
    assert fitted.code == 0, fitted.err
    assert budgetline.load("m").feature_names_out_.tolist()[-2:] == ["x=v0", "x=(rare)"]
    assert "100,020 rows, 2 columns; " in fitted.err
    assert "wrote m" in fitted.err


WRONG = {
    "empty": (b"", "data.csv cannot be read as CSV: it is empty"),
    "blank": (b"\n\n  \n", "data.csv cannot be read as CSV: it holds no columns"),
    "only a header": (b"a,x,y\n", "data.csv holds no rows"),
    "only the target": (table("y", Y), "data.csv has no columns except 'y'"),
    "1 row": (b"a,x,y\n1,red,yes\n", "data.csv: y has only one class, 'yes': there is nothing to tell apart (1 class)"),
    "one class": (
        table("ay", A, ["no"] * N),
        "data.csv: y has only one class, 'no': there is nothing to tell apart (1 class)",
    ),
    "gaps in the target": (
        table("ay", A, ["", *Y[1:]]),
        "data.csv, block 0: column 'y' has 1 missing values, the first in line 2; "
        "--drop-missing-target leaves these rows out",
    ),
    "no target at all": (
        table("ay", A, [""] * N),
        f"data.csv, block 0: column 'y' has {N} missing values, the first in line 2",
    ),
    "dates as target": (
        table("ay", A, turns("2020-01-01", "2020-01-02")),
        "the target 'y' holds dates or times, neither numbers nor labels",
    ),
    "infinity in the target": (
        table("ay", A, ["inf", *A[1:]]),
        "data.csv: Input y contains infinity or a value too large for dtype('float64').",
    ),
    "infinity": (with_x(["inf", *A[1:]]), "data.csv: column 'x' contains infinity, first in line 2"),
    "infinity next to text": (
        table("axcy", A, ["1", "-inf", *A[2:]], COLOURS, Y),
        "data.csv: column 'x' contains infinity, first in line 3",
    ),
    "too large next to text": (
        table("axcy", A, ["1e300", *A[1:]], COLOURS, Y),
        "data.csv: column 'x' holds 1e+300, which is too large: rescale it, first in line 2",
    ),
    "too small next to text": (
        table("axcy", A, turns("1e-300", "2e-300", "0"), COLOURS, Y),
        "data.csv: column 'x' spans only 2e-300, which is too small: rescale it",
    ),
    "the header again": (with_x(A) + with_x(A), f"data.csv, line {N + 2}: the header is repeated"),
    "the header again, text": (
        table("xcy", COLOURS, COLOURS, Y) * 2,
        f"data.csv, line {N + 2}: the header is repeated",
    ),
    "a short row": (with_x(COLOURS) + b"1,2\n", f"data.csv, line {N + 2}: 2 fields instead of 3"),
    "a long row": (with_x(COLOURS) + b"1,2,3,4\n", f"data.csv, line {N + 2}: 4 fields instead of 3"),
    "two columns of a name": (table("aay", A, COLOURS, Y), "the data have 2 columns 'a'"),
    "an open quote": (with_x(COLOURS) + b'1,"o,yes\n', f"data.csv, line {N + 2}: 2 fields instead of 3"),
    "UTF-16": (with_x(COLOURS).decode().encode("utf-16"), "data.csv: not UTF-8 text: save the file as UTF-8"),
    "cut": (gzip.compress(with_x(COLOURS))[:-30], "data.csv cannot be read as CSV: Truncated compressed stream"),
    "a comment first": (
        b"# made by a program\n" + with_x(COLOURS),
        "--target: column 'y' is not in data.csv; its columns are '# made by a program'",
    ),
    "hexadecimal numbers": (
        with_x(f"0x{k:x}" for k in range(N)),
        "data.csv, line 2: column 'x' holds '0x0', not a number",
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_one_clear_line(name, run):
    content, expected = WRONG[name]
    Path("data.csv").write_bytes(content)
    found = run("fit", "data.csv", "-t", "y", "-o", "m")
    assert (found.code, found.out, found.err.splitlines()[-1]) == (2, "", f"error: {expected}")
    streamed = run("fit", "data.csv", "-t", "y", "-o", "m", "--stream")
    assert (streamed.code, streamed.out) == (2, "")
    assert streamed.err.splitlines()[-1].startswith("error: ")
    assert not Path("m").exists()


@pytest.mark.parametrize(
    "name",
    ["bank.csv", *(pytest.param(n, marks=pytest.mark.slow) for n in ("semicolons.csv", "bank.csv.gz", "gaps.csv"))],
)
def test_the_bank_as_it_comes(name, run, done):
    bank = load_bank().frame[::2]
    bank.replace("unknown", "?" if name == "gaps.csv" else "unknown").to_csv(
        name, index=False, sep=";" if name == "semicolons.csv" else ","
    )
    fitted = run("fit", name, "-t", "y", "-o", "m", "--rule", "score", "--no-cv")
    assert fitted.code == 0, fitted.err
    model = budgetline.load("m")
    X = pd.read_csv(name, sep=None, engine="python", na_values="?").drop(columns="y")
    expected = budgetline.AnytimeClassifier(encoding="spline", rule="score").fit(X, bank["y"])
    assert model.sequence_.groups == expected.sequence_.groups
    shares = shares_of(run("predict", "m", name, "--budget", 5, "--proba").out)
    np.testing.assert_allclose(shares["yes"], expected.predict_proba(X, budget=5)[:, 1], rtol=1e-7)
    report = done("report", "m", name, "-t", "y", "--no-baselines", "--cv", 3)
    assert report["data"]["columns"] == 16
    assert report["curves"][1]["values"][-1] > 0.75  # AUC on held-out rows
    assert run("report", "m", name, "-t", "y", "--no-baselines", "--cv", 3).code == 0
    assert Path("report.html").stat().st_size > 10_000
