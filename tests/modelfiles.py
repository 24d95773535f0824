"""What the tests of model files share: models, files with a part of them changed, and parts to put in."""

from __future__ import annotations

import json
import warnings
import zipfile

import numpy as np
import pandas as pd
import pytest
from conftest import imbalanced
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from evenmargin import EvenMarginClassifier, LinearSVM
from evenmargin.persistence import ModelFileError, _file, load, read_manifest, save

# --- models ---


X, Y = imbalanced(n=120, d=5, seed=1)
FRAME = pd.DataFrame(X, columns=list("abcde")).assign(
    kind=np.random.default_rng(0).choice(["x", "y", "z"], 120),
    when=pd.Timestamp("2024-01-01") + pd.to_timedelta(np.arange(120), "D"),
)
FRAME.loc[3, "a"] = np.nan


def there_and_back(model, folder, **options):
    return load(save(model, folder / "model.skops", **options), **options)


def fitted(model, rows=X, labels=Y):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return model.fit(rows, labels)


def answers(model, rows=X):
    """All that a model says of rows."""
    names = ("predict", "predict_proba", "decision_function", "transform")
    return {name: np.asarray(getattr(model, name)(rows)) for name in names if hasattr(model, name)}


def same_answers(one, other, rows=X):
    mine, theirs = answers(one, rows), answers(other, rows)
    assert mine
    assert mine.keys() == theirs.keys()
    for name in mine:
        np.testing.assert_array_equal(mine[name], theirs[name], err_msg=name)
    return True


def fitted_committee():
    return EvenMarginClassifier(time_budget="fast").fit(FRAME, np.where(Y > 0, "bad", "good"))


def saved_small(folder):
    """A small file with an array, a dict and a random state."""
    model = make_pipeline(StandardScaler(), LinearSVM(random_state=np.random.RandomState(0)).fit(X, Y))
    model.named_steps["standardscaler"].fit(X)
    return save(model, folder / "small.skops")


# --- files ---


def saying(path, words):
    """`load` and `read_manifest` refuse a file in one sentence with these words."""
    for read in (load, read_manifest):
        with pytest.raises(ModelFileError, match=words) as caught:
            read(path)
        assert str(caught.value).startswith(str(path))
        assert "\n" not in str(caught.value)
    return True


def unpacked(path):
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def forge(path, folder, schema=None, manifest=None, members=None):
    """A file with some of its content changed, and the checksum made right again."""
    parts = unpacked(path)
    for name, change in (("schema.json", schema), ("evenmargin.json", manifest)):
        if change is not None:
            content = json.loads(parts[name])
            changed = change(content)
            parts[name] = json.dumps(content if changed is None else changed).encode()
    if members is not None:
        members(parts)
    out = folder / "forged.skops"
    out.write_bytes(_file.sealed(parts))
    return out


def version(name, number):
    def change(manifest):
        manifest["versions"][name] = number

    return change


def resealed(content):
    """The bytes of a file with its checksum made right again."""
    body = bytes(content[: -len(_file.seal(b""))])
    return body + _file.seal(body)


# --- parts of schema.json ---


def text(value):
    return {"__class__": "str", "__module__": "builtins", "__loader__": "JsonNode", "content": json.dumps(value)}


def node(kind, module, name, **more):
    return {"__class__": name, "__module__": module, "__loader__": kind, **more}


def several(*parts, kind="TupleNode", name="tuple"):
    return node(kind, "builtins", name, content=list(parts))


def mapping(**parts):
    keys = several(*(node("TypeNode", "builtins", "str") for _ in parts), kind="ListNode", name="list")
    return node("DictNode", "builtins", "dict", content=parts, key_types=keys)


def keyed(key, kind):
    """A dict whose key is made by calling something with it."""
    return mapping() | {"content": {key: text(1)}, "key_types": several(kind, kind="ListNode", name="list")}
