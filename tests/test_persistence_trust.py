"""Models that travel: what may be in them, and what may not."""

from __future__ import annotations

import importlib
import threading
from functools import partial

import numpy as np
import pytest
from modelfiles import FRAME, X, Y, same_answers, there_and_back
from scipy.special import expit
from sklearn.base import BaseEstimator
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import PoissonRegressor
from sklearn.metrics import get_scorer
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler
from sklearn.utils import all_estimators

import evenmargin
from evenmargin import EvenMarginClassifier, KernelSVM, LinearSVM, kernels, metrics
from evenmargin.losses import LOSSES
from evenmargin.persistence import TRUSTED, ModelFileError, load, save, types
from evenmargin.persistence._trusted import KINDS, is_trusted
from evenmargin.sampling import SAMPLERS
from evenmargin.solvers import KERNEL_SOLVERS, SOLVERS

# --- the list of trusted types ---


def resolve(name):
    module, _, last = name.rpartition(".")
    return getattr(importlib.import_module(module), last)


@pytest.mark.parametrize("name", sorted({name for names in TRUSTED.values() for name in names}))
def test_every_trusted_name_exists_where_it_says(name):
    found = resolve(name)
    assert types.file_name(types.full_name(found)) == name or name == "numpy.dtype"


def test_no_type_has_two_names():
    places = [*types.OBJECTS.values(), *types.TUPLES.values(), *types.FUNCTIONS.values()]
    assert len(set(places)) == len(places) == len({*types.OBJECTS, *types.TUPLES, *types.FUNCTIONS})


def test_every_estimator_and_part_is_trusted():
    parts = [
        *(getattr(evenmargin, name) for name in evenmargin.__all__ if name[0].isupper()),
        *LOSSES.values(),
        *kernels.KERNELS.values(),
        *SOLVERS.values(),
        *KERNEL_SOLVERS.values(),
        *SAMPLERS.values(),
        *map(type, metrics.METRICS.values()),
    ]
    known = {name for names in TRUSTED.values() for name in names}
    assert {types.file_name(types.full_name(part)) for part in parts if isinstance(part, type)} <= known


def test_every_estimator_of_scikit_learn_is_trusted_and_built_in_no_other_way():
    for _, kind in all_estimators():
        assert is_trusted("ObjectNode", kind.__module__, kind.__name__, frozenset())
        for way in KINDS - {"ObjectNode"}:
            assert not is_trusted(way, kind.__module__, kind.__name__, frozenset())


@pytest.mark.parametrize(
    "name",
    ["sklearn.svm.SVC", "sklearn.base.clone", "sklearn.nothing.SVC", "sklearn.svm._classes.Nothing", "sklearn..SVC",
     "sklearn.datasets._base.load_files", "sklearn.tests.test_base.MyEstimator", "sklearn_extra.SVC", "sklearn.SVC"],
)  # fmt: skip
def test_other_names_of_scikit_learn_are_not_trusted(name):
    module, _, last = name.rpartition(".")
    assert not any(is_trusted(kind, module, last, frozenset()) for kind in KINDS)


@pytest.mark.parametrize("function", [np.arcsinh, np.log1p, expit, np.add], ids=str)
def test_functions_of_numbers_are_trusted(function, tmp_path):
    assert there_and_back(FunctionTransformer(function), tmp_path).func is function


@pytest.mark.parametrize(
    "name", ["numpy.load", "numpy.fromfile", "numpy.ufunc", "scipy.special.test", "numpy.f2py.add"]
)
def test_other_functions_of_numpy_and_scipy_are_not(name):
    module, _, last = name.rpartition(".")
    assert not is_trusted("FunctionNode", module, last, frozenset())


def test_a_regressor_with_a_loss_of_its_own_travels(tmp_path):
    model = PoissonRegressor().fit(X, Y > 0)
    assert same_answers(model, there_and_back(model, tmp_path))


def test_keys_of_all_plain_types_travel(tmp_path):
    for prices in ({1: 1.0}, {1.5: 1.0}, {"a": 1.0}, {True: 1.0}, {np.int64(3): 1.0}, {np.str_("a"): 1.0}):
        back = there_and_back(LinearSVM(class_weight=prices), tmp_path).class_weight
        assert back == prices
        assert [type(key) for key in back] == [type(key) for key in prices]


def test_nothing_outside_evenmargin_scikit_learn_numpy_and_scipy_is_trusted():
    roots = {name.split(".")[0] for names in TRUSTED.values() for name in names}
    assert roots == {"evenmargin", "sklearn", "numpy", "scipy"}


@pytest.mark.parametrize(
    "name",
    ["accuracy", "average_precision", "balanced_accuracy", "f1", "f1_macro", "jaccard", "matthews_corrcoef",
     "neg_brier_score", "neg_log_loss", "precision", "recall", "roc_auc", "top_k_accuracy"],
)  # fmt: skip
def test_a_search_by_any_scorer_of_classifiers_can_be_saved(name, tmp_path):
    back = there_and_back(GridSearchCV(LinearSVM(), {}, scoring=get_scorer(name)), tmp_path)
    assert repr(back.scoring) == repr(get_scorer(name))


# --- models that cannot travel ---


class Own(LinearSVM):
    """A class from outside."""


def linear(A, B):
    return A @ B.T


class Odd(BaseEstimator):
    def __init__(self, inner=None):
        self.inner = inner


REFUSED = {
    "a lambda as kernel": (KernelSVM(kernel=lambda A, B: A @ B.T), "<lambda>"),
    "a function as kernel": (KernelSVM(kernel=linear), "test_persistence_trust.linear"),
    "a function as objective": (EvenMarginClassifier(linear), "test_persistence_trust.linear"),
    "a class from outside": (make_pipeline(StandardScaler(), Own()), "test_persistence_trust.Own"),
    "a partial function": (FunctionTransformer(partial(np.add, 1)), "a partial function"),
    "a bound method": (FunctionTransformer(LinearSVM().get_params), "a bound method"),
    "a generator": (Odd(np.random.default_rng()), r"a numpy\.random\.Generator"),
    "a frame": (Odd({"rows": [FRAME]}), r"inner\['rows'\]\[0\]"),
    "a lock": (Odd(threading.Lock()), "_thread.lock"),
    "keys that JSON confuses": (Odd({1: "a", "1": "b"}), "keys that JSON cannot tell apart"),
    "False beside an empty key": (Odd({False: "a", "": "b"}), "keys that JSON cannot tell apart"),
    "a tuple as key": (Odd({(1, 2): "a"}), "inner"),
    "a tree": (RandomForestClassifier(2).fit(X, Y), "sklearn.tree._tree.Tree"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_could_not_be_loaded_again_is_not_saved(name, tmp_path):
    model, named = REFUSED[name]
    trusted = [Odd] if "Odd" in repr(type(model)) else []
    with pytest.raises(ModelFileError, match=rf"cannot be saved.*{named}") as caught:
        save(model, tmp_path / "model.skops", trusted=trusted)
    assert "\n" not in str(caught.value)
    assert not list(tmp_path.iterdir())


def test_a_model_that_holds_itself_is_not_saved(tmp_path):
    model = LinearSVM()
    model.self_ = model
    with pytest.raises(ModelFileError, match="cannot be saved: it holds itself"):
        save(model, tmp_path / "model.skops")


@pytest.mark.parametrize("model", [LinearSVM, None, {"a": 1}, "model", np.ones(3)], ids=str)
def test_only_estimators_are_saved(model, tmp_path):
    with pytest.raises(ModelFileError, match="save takes an estimator"):
        save(model, tmp_path / "model.skops")


@pytest.mark.parametrize("name", [Own, "test_persistence_trust.Own"])
def test_a_class_from_outside_travels_if_the_user_trusts_it(name, tmp_path):
    model = Own().fit(X, Y)
    path = save(model, tmp_path / "own.skops", trusted=[name])
    with pytest.raises(ModelFileError, match=r"not trusted \(test_persistence_trust.Own\)"):
        load(path)
    assert same_answers(load(path, trusted=[name]), model)


def test_a_function_from_outside_travels_if_the_user_trusts_it(tmp_path):
    model = KernelSVM(kernel=linear).fit(X, Y)
    assert same_answers(there_and_back(model, tmp_path, trusted=[linear]), model)


@pytest.mark.parametrize("trusted", [True, "test_persistence_trust.Own", 3, [None], None], ids=str)
def test_trust_is_given_by_name_only(trusted, tmp_path):
    path = save(LinearSVM(), tmp_path / "model.skops")
    with pytest.raises(ModelFileError, match="must be a list of full names"):
        load(path, trusted=trusted)
