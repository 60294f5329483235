"""The digits example runs from start to end, its features are what they say, and its words follow from its numbers."""

import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from example_modules import example_module
from sklearn.datasets import load_digits

ROOT = Path(__file__).parents[1]
SCRIPT = ROOT / "examples" / "digits.py"


@pytest.fixture(scope="module")
def digits():
    yield from example_module("digits")


@pytest.mark.slow
def test_quick_run(tmp_path):
    kept = tmp_path / "results" / "digits.md"
    done = subprocess.run(
        [sys.executable, "-W", "error", str(SCRIPT), "--quick", "--write", str(kept)],
        capture_output=True, text=True, check=False, cwd=ROOT,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout.rstrip() == kept.read_text(encoding="utf-8").rstrip()
    assert "160 training images and 80 test images, with 89 columns in 3 groups." in done.stdout
    assert len(re.findall(r"^(pixels|moments|holes) .*(ns|µs|ms|s) +25$", done.stdout, re.MULTILINE)) == 3
    rows = re.findall(
        r"^\| (\S+) ms \| (.*?) \| (\S+) % \| (\S+) \|.*\| (\S+) % \| (\S+) % \|$", done.stdout, re.MULTILINE
    )
    assert [(row[0], row[1]) for row in rows] == [
        (deadline, method)
        for deadline in ("1", "10000")
        for method in ("learned order", "cheapest first", "everything, then predict")
    ]
    for _, _, right, groups, late, useful in rows[3:]:  # ten seconds are enough for everything
        assert (groups, late) == ("3.0", "0.0")
        assert right == useful
        assert float(right) > 50
    assert len({row[2] for row in rows[3:]}) == 1  # all groups, one model
    assert "- 10000 ms: the learned order is level with “everything, then predict” (+0.0 % ± 0.0 %)" in done.stdout
    assert "Measured on" in done.stdout


def test_features_have_one_shape_and_are_finite(digits):
    assert 8 <= len(digits.FEATURES) <= 12
    images = load_digits().images[::50]
    for name, function in digits.FEATURES.items():
        before = images.copy()
        table = np.array([function(image) for image in images], dtype=float)
        assert table.ndim == 2, name
        assert np.isfinite(table).all(), name
        assert np.array_equal(images, before), name


def drawn(*rows):
    return 16.0 * np.array([[c == "#" for c in row] for row in rows])


RING = drawn("........", ".#####..", ".#...#..", ".#...#..", ".#...#..", ".#####..", "........", "........")
BAR = drawn(*["...##..."] * 8)


def test_holes(digits):
    parts, holes, size, y, x = digits.holes(RING)[:5]
    assert (parts, holes, size) == (1, 1, 9)
    assert (y, x) == (4, 4)  # with the margin of one
    assert digits.holes(BAR)[0] == 1
    two = drawn(*[".##..##."] * 8)  # its paper is in three parts, joined by the margin
    assert digits.holes(two)[:3].tolist() == [2, 0, 0]


def test_crossings_and_contour(digits):
    columns, rows = np.split(digits.crossings(RING), 2)
    assert rows.tolist() == [0, 2, 4, 4, 4, 2, 0, 0]
    assert columns.tolist() == [0, 2, 4, 4, 4, 2, 0, 0]
    top, bottom, left, right = np.split(digits.contour(RING), 4)
    assert top.tolist() == [8, 1, 1, 1, 1, 1, 8, 8]
    assert bottom.tolist() == [8, 2, 2, 2, 2, 2, 8, 8]
    assert left.tolist() == [8, 1, 1, 1, 1, 1, 8, 8]
    assert right.tolist() == [8, 2, 2, 2, 2, 2, 8, 8]


def test_upright_stands(digits):
    leaning = np.zeros((8, 8))
    for row in range(8):
        leaning[row, row // 2 + 1] = 16  # leans to the right, off the centre
    table = digits.upright(leaning).reshape(8, 8)
    y, x = np.mgrid[:8, :8]
    centre = (x * table).sum() / table.sum(), (y * table).sum() / table.sum()
    assert centre == pytest.approx((3.5, 3.5), abs=0.3)
    covariance = [((x - centre[0]) * (y - centre[1]) * t).sum() / t.sum() for t in (table, leaning)]
    assert abs(covariance[0]) < 0.15 * abs(covariance[1])


def test_a_bar_thins_to_a_line_with_two_ends_and_a_ring_to_one_without(digits):
    bar = np.zeros((8, 8))
    bar[1:7, 3:5] = 16
    length, ends, _ = np.split(digits.skeleton(bar), 3)
    assert ends.sum() == 2
    assert 10 <= length.sum() <= 16  # of about 4 × 12 pixels of the enlarged bar
    length, ends, _ = np.split(digits.skeleton(RING), 3)
    assert length.sum() > 20
    assert ends.sum() == 0


def test_moments_and_fourier_do_not_see_where_the_digit_stands(digits):
    moved = np.roll(RING, (1, 1), axis=(0, 1))
    assert digits.moments(moved)[1:3] == pytest.approx(digits.moments(RING)[1:3] + 1)
    assert digits.moments(moved)[3:] == pytest.approx(digits.moments(RING)[3:])
    assert digits.fourier(moved) == pytest.approx(digits.fourier(RING))
    total, y, x, yy, xy, xx = digits.moments(RING)[:6]
    ink = np.argwhere(RING > 0)
    assert (total, y, x) == pytest.approx((RING.sum(), *ink.mean(axis=0)))
    assert (yy, xy, xx) == pytest.approx(np.cov(ink.T, bias=True)[[0, 0, 1], [0, 1, 1]])


def test_gabor_tells_the_direction_of_strokes(digits):
    upright, lying = (digits.gabor(image).reshape(2, 4, 9).sum(axis=2)[1] for image in (BAR, BAR.T))
    assert upright.argmax() == 0  # waves along x see a stroke along y
    assert lying.argmax() == 2


@pytest.mark.parametrize(
    ("ours", "theirs", "words"),
    [(90, 10, "ahead of"), (10, 90, "behind"), (50, 51, "level with")],
)
def test_verdicts_follow_from_the_numbers(digits, ours, theirs, words):
    def runs(right):
        return digits.Runs(np.full(100, 0.001), np.arange(100) < right, np.ones(100), 0.002)

    effort = digits.Effort(deadlines=(0.002,))
    results = {(name, 0.002): runs(theirs) for name in (digits.EVERYTHING, digits.CHEAPEST)}
    lines = digits.verdicts({(digits.LEARNED, 0.002): runs(ours), **results}, effort)
    assert len(lines) == 1
    assert lines[0].count(words) == 2
    late = digits.Runs(np.full(100, 0.003), np.ones(100, dtype=bool), np.ones(100), 0.002)
    assert late.useful.sum() == 0
