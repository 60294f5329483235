"""A certificate about sets that must or must not hold some groups says so wherever it is read."""

import matplotlib.pyplot as plt
import numpy as np
import pytest
from best_sets import best_set

from budgetline import (
    AnytimeRegressor,
    BudgetCurve,
    BudgetCurveDisplay,
    Certificate,
    FeatureGroups,
    Moments,
    make_report,
)
from budgetline.datasets import load_heart

HEART = load_heart()
MODEL = AnytimeRegressor(HEART.feature_groups, alpha=1e-2).fit(HEART.data, HEART.target)
MOMENTS = MODEL.moments_
NAMES = HEART.feature_groups.names


def found(**condition):
    return best_set(MOMENTS, HEART.feature_groups, budget=100, alpha=1e-2, time_limit=60, **condition)


@pytest.fixture(scope="module")
def without():
    return found(exclude=["cp", "age"])


@pytest.fixture(scope="module")
def both():
    return found(include=["ecg"], exclude=["cp"])


def shown(certificate):
    """Everything that a reader sees of it."""
    return str(certificate), repr(certificate), certificate._repr_html_(), " ".join(certificate.notes)


def test_all_that_is_printed_names_what_must_be_in_and_what_must_not(without, both):
    for text in shown(without.certificate):
        assert "without age, cp" in text
    for text in shown(both.certificate):
        assert "with ecg and without cp" in text
    assert without.certificate.condition == "without age, cp"
    assert both.certificate.condition == "with ecg and without cp"


def test_nothing_speaks_of_any_set_or_sequence(without, both):
    """The bounds are below what all groups explain, which is no contradiction: the theorems are about all sets."""
    everything = MODEL.certificate(time_limit=0).everything
    for certificate in (without.certificate, both.certificate):
        assert certificate.everything < everything
        assert "of any)" not in repr(certificate)
        assert "Theorem" not in str(certificate)
        assert "other sets may explain more" in str(certificate)


def test_a_certificate_about_all_sets_names_none():
    certificate = found().certificate
    assert certificate.condition == ""
    assert repr(certificate).startswith("Certificate(1 budget, timeliness at least ")
    assert "of any)" in repr(certificate)
    for text in shown(certificate):
        assert "with" not in text.replace("within", "")
    assert certificate.curve().label == "bound"


def test_best_sets_name_the_condition(without, both):
    assert repr(without).endswith("optimal of sets without age, cp)")
    assert repr(both).endswith("optimal of sets with ecg and without cp)")
    assert repr(found()).endswith("optimal)")


def test_what_requirements_add_is_named():
    groups = {"a": [0], "b": [1], "c": [2]}
    X = np.random.default_rng(0).normal(size=(50, 3))
    moments = Moments.from_data(X, X.sum(axis=1))
    needed = FeatureGroups(groups, requires={"b": ["a"]})
    assert best_set(moments, needed, budget=3, include=["b"]).certificate.condition == "with a, b"
    assert best_set(moments, needed, budget=3, exclude=["a"]).certificate.condition == "without a, b"


def test_timeliness_of_sequences_that_must_begin_with_groups_is_refused(both, without):
    """A sequence begins with nothing, so bounds on sets that hold a group do not bound it."""
    with pytest.raises(ValueError, match="for sets with ecg and without cp has no timeliness"):
        both.certificate.timeliness()
    assert "timeliness" not in repr(both.certificate)
    best = without.certificate.timeliness()
    assert 0 <= best.ratio <= 1
    assert "of any such sequence)" in repr(without.certificate)


def test_plots_name_the_condition(without, both):
    label = "bound on sets without age, cp: none of them can be above"
    assert labels(without.certificate.plot()) == ["training", label]
    assert labels(both.certificate.plot())[1].startswith("bound on sets with ecg and without cp: none of them")
    drawn = BudgetCurveDisplay({"model": BudgetCurve.of(MODEL)}).plot(bound=without.certificate.curve())
    assert labels(drawn)[1] == f"{label} (training data)"


def labels(display):
    texts = [text.get_text() for text in display.ax_.get_legend().get_texts()]
    plt.close(display.figure_)
    return texts


def test_many_groups_are_counted_where_there_is_little_room():
    certificate = found(exclude=NAMES[:6]).certificate
    assert f"{', '.join(NAMES[:3])} and 3 more" in certificate.curve().label
    assert f"without {', '.join(NAMES[:6])}" in " ".join(certificate.notes)


def test_reports_refuse_it_by_its_condition(without):
    with pytest.raises(ValueError, match=r"is about other conditions \(sets without age, cp\), order"):
        make_report(MODEL, certificate=without.certificate)


def test_files_carry_the_condition_and_the_verifier_checks_it(without, both, tmp_path):
    for k, certificate in enumerate((without.certificate, both.certificate)):
        certificate.save(tmp_path / str(k))
        read = Certificate.load(tmp_path / str(k))
        assert read.condition == certificate.condition
        assert repr(read) == repr(certificate)
        read.verify(MOMENTS)
