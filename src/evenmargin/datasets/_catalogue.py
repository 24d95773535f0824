"""The data sets of the papers: what each is, what its paper made of it, where a copy may be found."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from string import ascii_uppercase
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._util.typing import Index
from . import _openml
from ._arrays import Arrays, in_canonical_order
from ._openml import OpenMLTable

__all__ = ["CATALOGUE", "Entry"]


@dataclass(frozen=True)
class Entry:
    """One data set.

    Parameters
    ----------
    name, title : str
        The name to load it by, and what it is.
    papers : tuple of str
        Who used it: "log-loss", "pegasos", "z-svm", "gwl".
    positive : str
        The paper's positive class.
    origin : str
        Where the set comes from.
    columns : int
        How many the stored form has.
    train, test : (int, int)
        Rows and positives in the paper's version.
    checksum : str
        Of the stored form.
    info : str
        What differs from the paper, or what it does not say.
    stored_positive : str
        The positive class of the stored form, where it is another one.
    features : int
        How many the paper's version has, where it is another number.
    needs : tuple of str
        Arrays beside X and y that the paper's version is made from.
    paper : callable, optional
        (stored arrays, random state) -> the paper's version.
    source : OpenMLTable, optional
        The copy on OpenML, where there may be one of the same content.
    """

    name: str
    title: str
    papers: tuple[str, ...]
    positive: str
    origin: str
    columns: int
    train: tuple[int, int]
    checksum: str
    test: tuple[int, int] | None = None
    info: str = ""
    stored_positive: str = ""
    features: int = 0
    needs: tuple[str, ...] = ()
    paper: Callable[[Arrays, Any], Arrays] | None = None
    source: OpenMLTable | None = None


def _swapped(arrays: Arrays, random_state: Any) -> Arrays:
    """Trained on the rows for testing, and the other way round."""
    return {"X": arrays["X_test"], "y": arrays["y_test"], "X_test": arrays["X"], "y_test": arrays["y"]}


def _draw(X: NDArray[Any], rows: Index, count: int, generator: Any) -> Index:
    if len(rows) < count:
        raise ValueError(
            f"The paper's version needs {count} rows of a class that has {len(rows)} here: use stored=True."
        )
    return generator.choice(in_canonical_order(X, rows), count, replace=False)


def _fewer_positives(arrays: Arrays, random_state: Any) -> Arrays:
    """All negatives, with 254 positives drawn for training and 119 for testing."""
    from sklearn.utils import check_random_state

    generator = check_random_state(random_state)
    chosen: Arrays = {}
    for half, count in (("", 254), ("_test", 119)):
        X, y = arrays["X" + half], arrays["y" + half]
        take = y == -1
        take[_draw(X, np.flatnonzero(y == 1), count, generator)] = True
        chosen |= {"X" + half: X[take], "y" + half: y[take]}
    return chosen


def _halves_of_letters(arrays: Arrays, random_state: Any) -> Arrays:
    """Q against the rest; half of the rows for testing, 353 of them positive."""
    from sklearn.utils import check_random_state

    generator = check_random_state(random_state)
    X, positive = arrays["X"], arrays["label"] == 1 + ascii_uppercase.index("Q")
    y = np.where(positive, 1, -1)
    test = np.zeros(len(X), dtype=bool)
    test[_draw(X, np.flatnonzero(positive), 353, generator)] = True
    test[_draw(X, np.flatnonzero(~positive), 10_000 - 353, generator)] = True
    return {"X": X[~test], "y": y[~test], "X_test": X[test], "y_test": y[test]}


def _one_hot(arrays: Arrays, random_state: Any) -> Arrays:
    return {"X": arrays["X_onehot"], "y": arrays["y"]}


_CONTINUOUS = (0, 14, 16, 18, 20, 22)  # age, TSH, T3, TT4, T4U, FTI


def _continuous(arrays: Arrays, random_state: Any) -> Arrays:
    return {"X": arrays["X"][:, _CONTINUOUS], "y": arrays["y"]}


def _grass(arrays: Arrays, random_state: Any) -> Arrays:
    signs = {f"y{half}": np.where(arrays[f"label{half}"] == 7, 1, -1) for half in ("", "_test")}
    return {"X": arrays["X"], "X_test": arrays["X_test"], **signs}


def _distinct(arrays: Arrays, random_state: Any) -> Arrays:
    keep = arrays["keep"].astype(bool)
    return {"X": arrays["X"][keep], "y": arrays["y"][keep]}


def _distinct_and_flipped(arrays: Arrays, random_state: Any) -> Arrays:
    distinct = _distinct(arrays, random_state)
    return {"X": distinct["X"], "y": -distinct["y"]}


def _quality(arrays: Arrays, random_state: Any) -> Arrays:
    return {"X": arrays["X"], "y": arrays["quality"].astype(np.float64)}


_UCI = "the UCI repository"
_LIBSVM = "LIBSVM's page of data sets"

_ENTRIES = (
    Entry(
        name="mnist", title="MNIST, handwritten digits", papers=("log-loss",), positive="digit 8",
        origin="LeCun, Cortes and Burges", columns=780, train=(60_000, 5_851), test=(10_000, 974),
        checksum="f8577955942ba790fe317d6bc9e06e998570ff540a8912faf373971a2adb1bc3",
        info="Grey values 0 to 255. The last 4 of 784 pixels, always 0, are left out as in LIBSVM's file.",
        source=OpenMLTable(554, "8", columns=780, labels={str(d): d for d in range(10)}, split=60_000, dtype="uint8"),
    ),
    Entry(
        name="ijcnn1", title="IJCNN 2001 challenge, problem 1", papers=("log-loss",), positive="class 1",
        origin=f"{_LIBSVM}, ijcnn1 and ijcnn1.t", columns=22, train=(91_701, 8_712), test=(49_990, 4_853),
        checksum="8a2cb11e1a3b7d31c225acf809f6d6826ae6652aeab16efec6d0a2cbe4134f96",
        info="As in the paper, trained on what LIBSVM calls the test file and tested on its training file.",
        needs=("X_test",), paper=_swapped,
    ),
    Entry(
        name="shuttle", title="Statlog shuttle", papers=("log-loss",), positive="class 4",
        origin=f"{_UCI}, Statlog (Shuttle)", columns=9, train=(43_500, 6_748), test=(14_500, 2_155),
        checksum="025be58f897071f10736d957eab4222cc016d3cebab3f0318e52871337b1453f",
        source=OpenMLTable(40685, "4", labels={str(c): c for c in range(1, 8)}, split=43_500, dtype="int16"),
    ),
    Entry(
        name="letter", title="Letter recognition", papers=("log-loss",), positive="letter Q",
        origin=f"{_UCI}, Letter Recognition", columns=16, train=(10_000, 430), test=(10_000, 353),
        checksum="b773ad46fe562cb7a93a92232fda6f9b75a8e2030b5c7a33a86537bfc4f2dd56",
        info="The paper names neither the letter nor the split. Of 10 000 test rows it has 353 positive, and so has "
        "this draw of them. Of all letters, Q, scaled to [−1, 1], comes nearest to the paper's four figures.",
        stored_positive="letter Z", needs=("label",), paper=_halves_of_letters,
        source=OpenMLTable(6, "Z", labels={c: i for i, c in enumerate(ascii_uppercase, 1)}, dtype="uint8"),
    ),
    Entry(
        name="usps", title="USPS, handwritten digits", papers=("log-loss",), positive="digit 2",
        origin="zip.train and zip.test of “The Elements of Statistical Learning”", columns=256,
        train=(7_291, 731), test=(2_007, 198),
        checksum="fc28c02603f6a3c658ca8873dacaf568bafa83c0c8c8d370adde990204d6c066",
        info="Grey values from −1 to 1, as at the source. LIBSVM's file of the name has smoothed images.",
    ),
    Entry(
        name="adult_a9a", title="Adult, 123 binary columns", papers=("log-loss",), positive="income above 50 000",
        origin=f"{_LIBSVM}, a9a and a9a.t", columns=123, train=(24_974, 254), test=(12_554, 119),
        checksum="caeeaea42aa2b1377996b243c5ab8d673056bdafd1b731c1839a486331f33d80",
        info="The paper's row counts are all negatives with 254 and 119 positives. It does not say which, so they are "
        "drawn at random.",
        needs=("X_test",), paper=_fewer_positives,
    ),
    Entry(
        name="ecoli_imu", title="E. coli proteins", papers=("pegasos",), positive="imU",
        origin=f"{_UCI}, Ecoli", columns=7, train=(336, 35),
        checksum="009bc2a8bed040e881d71cd92600923e787fa6285e70c3d18e4e7dbe98c1ca95",
        source=OpenMLTable(39, "imU"),
    ),
    Entry(
        name="oil_spill", title="Oil spills in radar images", papers=("pegasos",), positive="oil spill",
        origin="Kubat, Holte and Matwin; imbalanced-learn's benchmark sets, oil", columns=49, train=(937, 41),
        checksum="f8a184cf5d03c3df428638e9dcc712b1aece3d50faff176e7ebae7c6dfc376c9",
        source=OpenMLTable(311, "1", dtype="float64"),
    ),
    Entry(
        name="abalone19", title="Abalone", papers=("pegasos", "z-svm"), positive="19 rings",
        origin=f"{_UCI}, Abalone", columns=10, train=(4_177, 32),
        checksum="c7e0f509c165d2f3e6cf6bf0822ee520e5f71425e0e969be3199fbba7cb42464",
        info="Sex is three columns, as in the pegasos paper; the z-svm paper does not say how it coded sex.",
        source=OpenMLTable(183, convert=_openml.abalone),
    ),
    Entry(
        name="ozone_level", title="Ozone level, one-hour peaks", papers=("pegasos",), positive="ozone day",
        origin=f"{_UCI}, Ozone Level Detection; imbalanced-learn's benchmark sets, ozone_level",
        columns=72, train=(2_536, 73),
        checksum="b4b6b67bd9c0a7022b1c3aabd0aeb3f5c76b1a2d8439454be3bf366c45852ab6",
        info="The gaps of the UCI file are filled, as in imbalanced-learn's copy; how is not known.",
    ),
    Entry(
        name="spectrometer", title="IRAS low-resolution spectra", papers=("pegasos",), positive="class 44 or above",
        origin=f"{_UCI}, Low Resolution Spectrometer", columns=93, train=(531, 45),
        checksum="edc73ba1db44d72441fb1db797bd8b268134dd5c80d546d9c03b38726d926b52",
        source=OpenMLTable(313, target="LRS-class", convert=_openml.spectra),
    ),
    Entry(
        name="mammography", title="Mammography, microcalcifications", papers=("pegasos",), positive="calcification",
        origin="Woods and others; imbalanced-learn's benchmark sets, mammography", columns=6, train=(11_183, 260),
        checksum="8aceb0e3987f630b62391bff77af6b4e62aaef5ad77c26b86e467b1c57c75332",
        source=OpenMLTable(310, "1"),
    ),
    Entry(
        name="yeast_ml8", title="Yeast genes, multi-label", papers=("pegasos",), positive="label 8, counted from 0",
        origin=f"{_LIBSVM}, yeast (multi-label)", columns=103, train=(2_417, 178),
        checksum="96b7637e7e532728a69a2f8fb3d51fbfb7a13717651c2f52d04cbd2574a94b00",
        source=OpenMLTable(40597, "TRUE", target="Class9", columns=103),
    ),
    Entry(
        name="yeast_me2", title="Yeast proteins", papers=("z-svm",), positive="ME2",
        origin=f"{_UCI}, Yeast", columns=8, train=(1_484, 51),
        checksum="0a46325be63fc15087ad2fb20401e4e4abad7939ec6ecba92a73b4e66c1339a1",
        source=OpenMLTable(181, "ME2"),
    ),
    Entry(
        name="car_good", title="Car evaluation", papers=("z-svm",), positive="good",
        origin=f"{_UCI}, Car Evaluation", columns=6, train=(1_728, 69), features=21,
        checksum="f1a7e1655b2efa85a57d211a3253f4d1c59c30bcc4304ea9c4604c037e779cdc",
        info="The paper does not say how it coded the columns; with a column for each level its figures come out. "
        "The stored form has six columns of codes in order.",
        needs=("X_onehot",), paper=_one_hot, source=OpenMLTable(40975, convert=_openml.car),
    ),
    Entry(
        name="euthyroid", title="Sick euthyroid, rows without gaps", papers=("z-svm",), positive="sick euthyroid",
        origin=f"{_UCI}, Thyroid Disease, sick-euthyroid", columns=24, train=(2_000, 238), features=6,
        checksum="9c0239e354aa916587f835161d202992cbf48866799b9813cabddc8de5819c68",
        info="Without TBG and then without rows that have gaps these are the paper's 2 000 rows. Its figures come out "
        "with the six continuous columns (age, TSH, T3, TT4, T4U, FTI); the stored form has all 24.",
        paper=_continuous,
    ),
    Entry(
        name="segmentation", title="Image segmentation", papers=("z-svm",), positive="GRASS",
        origin=f"{_UCI}, Image Segmentation, both files", columns=19, train=(210, 30), test=(2_100, 300),
        checksum="5ea048061ad035f518844dfa4ab9e2eab75ef741921dfae169efefbc064804bd",
        info="The paper uses the 210 training rows and does not name the class, of which all seven have 30; its "
        "figures come out with GRASS. The official test rows are X_test.",
        stored_positive="BRICKFACE", needs=("label", "X_test", "label_test"), paper=_grass,
    ),
    Entry(
        name="ionosphere", title="Ionosphere, radar returns", papers=("gwl",), positive="good",
        origin=f"{_UCI}, Ionosphere", columns=34, train=(350, 225),
        checksum="322a633292c0773d41f197b6144dfce51f0a4880ef19fb479aaf6d1711e1c75f",
        info="Distinct rows. The paper's F1 fits the frequent class, good, as the positive one; the stored form has "
        "bad.",
        stored_positive="bad", needs=("keep",), paper=_distinct_and_flipped, source=OpenMLTable(59, "b", keep=True),
    ),
    Entry(
        name="sonar", title="Sonar, mines and rocks", papers=("gwl",), positive="mine",
        origin=f"{_UCI}, Connectionist Bench (Sonar)", columns=60, train=(208, 111),
        checksum="80b38e1a48f9fc5c769f0321b7e232b9308ec00aec056c025b07d08fc657d088",
        info="The paper's F1 fits the frequent class, mine, as the positive one; the stored form has rock.",
        stored_positive="rock", needs=("keep",), paper=_distinct_and_flipped, source=OpenMLTable(40, "Rock", keep=True),
    ),
    Entry(
        name="breast_wisconsin", title="Breast cancer Wisconsin, original", papers=("gwl",), positive="malignant",
        origin=f"{_UCI}, Breast Cancer Wisconsin (Original)", columns=9, train=(449, 236),
        checksum="8dcd054a344e2c0ea0a7836ff1f2e86950b5eca925a027b07c5be6ffb401ca4c",
        info="Distinct rows without gaps. The paper says only Breast; its F1 fits this set, not breast_wdbc.",
        needs=("keep",), paper=_distinct, source=OpenMLTable(15, "malignant", keep=True, dtype="uint8"),
    ),
    Entry(
        name="german_credit", title="Statlog German credit, numeric", papers=("gwl",), positive="bad",
        origin=f"{_UCI}, Statlog (German Credit Data), german.data-numeric", columns=24, train=(1_000, 300),
        checksum="3e1dbd82dc987f32913b18478b72cb2b8fa3c7cccd22776f3491ba579b2d7409",
        info="The paper says only Statlog; its F1 is nearer to this set than to statlog_heart.",
        needs=("keep",), paper=_distinct,
    ),
    Entry(
        name="wine_quality_white", title="White wines", papers=("gwl",), positive="none: y is the quality, 3 to 9",
        origin=f"{_UCI}, Wine Quality, white", columns=11, train=(3_961, 0),
        checksum="38465f5e6a828089f58e3d71035b46583f331ee8b1eba4807dee113007723880",
        info="Distinct rows. The paper predicts the quality itself; the stored form has quality 4 or less as +1.",
        stored_positive="quality 4 or less", needs=("quality",), paper=_quality,
        source=OpenMLTable(44971, target="quality", convert=_openml.wine),
    ),
    Entry(
        name="breast_wdbc", title="Breast cancer Wisconsin, diagnostic", papers=(), positive="malignant",
        origin="scikit-learn", columns=30, train=(569, 212),
        checksum="e45b99b937eb27285940206778357d617ab50cefcd35928fbbf7011e74374c7f",
        info="The other reading of the gwl paper's Breast.",
    ),
    Entry(
        name="statlog_heart", title="Statlog heart", papers=(), positive="heart disease present",
        origin=f"{_UCI}, Statlog (Heart)", columns=13, train=(270, 120),
        checksum="96293ac9c217d35163dd1ef2af80a8b8897c54ba88db646e567b7edecfcb50ea",
        info="The other reading of the gwl paper's Statlog.", source=OpenMLTable(53, "present", keep=True),
    ),
    Entry(
        name="sick_euthyroid_full", title="Sick euthyroid, all rows", papers=(), positive="sick euthyroid",
        origin=f"{_UCI}, Thyroid Disease; imbalanced-learn's benchmark sets, sick_euthyroid",
        columns=42, train=(3_163, 293),
        checksum="100381123c39f51af74442eb9252589dd9eeaed805cdc0afb43bcf2302168880",
        info="All rows, with a column for each level; for comparison with euthyroid.",
    ),
)  # fmt: skip

CATALOGUE = {entry.name: entry for entry in _ENTRIES}
