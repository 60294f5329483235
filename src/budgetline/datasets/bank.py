"""A sample of the UCI bank marketing data: a raw table of text and numbers."""

from __future__ import annotations

from importlib import import_module
from importlib.resources import files

from sklearn.utils import Bunch

DESCR = """\
Bank marketing: which customers open a term deposit

Target: y, "yes" if the customer opened a deposit after the call (10.9 %), else "no".
Rows: 1131 phone calls, every 40th of the 45,211 of bank-full.csv, in order of time (May 2008 to November 2010).
Features: 16 as they came. Text: job, marital, education, default (credit in default), housing (loan), loan (personal),
contact (kind of telephone), month (of the last contact), poutcome (of the campaign before); "unknown" is one of their
categories. Numbers: age, balance (yearly average, euros), day (of the month), duration (of the last call, seconds),
campaign (calls in this campaign), pdays (days since a call of an earlier campaign, -1 for none), previous (calls before
this campaign). duration is known only after the call: a model that decides whom to call cannot use it.
Groups: one for each column. Costs: none are published.

Source: Moro, Rita and Cortez (2014), UCI Machine Learning Repository, dataset 222 (Bank Marketing, file bank-full.csv),
https://doi.org/10.24432/C5K306. Licence: CC BY 4.0. Changes: a sample of the rows, columns in another order, commas
between values.
"""


def load_bank() -> Bunch:
    """Load a sample of the UCI bank marketing data as a raw table: text, numbers, and a file as it comes.

    Returns
    -------
    sklearn.utils.Bunch
        data, a pandas DataFrame (1131, 16); target, "yes" or "no"; frame, both; feature_names; filename, the CSV file
        that they were read from; DESCR, with the source, licence and citation.

    Examples
    --------
    >>> from budgetline import AnytimeClassifier
    >>> from budgetline.datasets import load_bank
    >>> bank = load_bank()
    >>> model = AnytimeClassifier(encoding="spline", rule="score").fit(bank.data, bank.target)
    >>> model.sequence_.groups[:3]
    ('duration', 'poutcome', 'month')
    """
    try:
        pandas = import_module("pandas")
    except ImportError as error:
        raise ImportError("load_bank needs pandas: pip install 'budgetline[pandas]'") from error
    filename = str(files("budgetline.datasets").joinpath("data", "bank.csv.gz"))
    frame = pandas.read_csv(filename)
    data = frame.drop(columns="y")
    names = data.columns.tolist()
    return Bunch(data=data, target=frame["y"], frame=frame, feature_names=names, filename=filename, DESCR=DESCR)
