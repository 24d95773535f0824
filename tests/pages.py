"""What the tests of the report share: a page as it is read, and tables to report on."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser

import numpy as np
from sklearn.datasets import load_breast_cancer

COUNTS = ("tp", "fn", "fp", "tn")
VOID = {"meta", "input", "br", "circle", "line", "rect", "path", "polyline", "polygon"}


class Page(HTMLParser):
    """What a reader needs of a page: texts by id, elements, whether all are closed."""

    def __init__(self, html):
        super().__init__()
        self.html, self.open, self.tags, self.texts, self.headings, self.ids = html, [], [], {}, [], []
        self.feed(html)
        self.close()
        self.data = json.loads(self.texts["points"])
        self.words = " ".join("".join(self.texts[None]).split())

    def handle_starttag(self, tag, attrs):
        attrs = dict(attrs)
        self.tags.append((tag, attrs))
        if tag in ("td", "th", "dt", "dd"):
            self.texts.setdefault(None, []).append(" ")
        if "id" in attrs:
            self.ids.append(attrs["id"])
        if re.fullmatch("h[1-6]", tag):
            self.headings.append(int(tag[1]))
        if tag not in VOID:
            self.open.append((tag, attrs.get("id")))

    def handle_startendtag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self.open.pop()[0] == tag

    def handle_data(self, data):
        for _, name in self.open:
            if name:
                self.texts[name] = self.texts.get(name, "") + data
        if not {"script", "style", "title"} & {tag for tag, _ in self.open}:
            self.texts.setdefault(None, []).append(data)

    def sections(self):
        return [attrs["id"] for tag, attrs in self.tags if tag == "section"]


def tumours(malignant=40):
    data = load_breast_cancer(as_frame=True)
    y = np.where(data.target == 0, "malignant", "benign")
    keep = np.concatenate([np.flatnonzero(y == "benign"), np.flatnonzero(y == "malignant")[:malignant]])
    return data.data.iloc[keep].reset_index(drop=True), y[keep]


def small(n=120, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    return X, X[:, 0] + 0.5 * rng.normal(size=n) > 1.2


def counts_of(model, X, y, label, weight=None):
    weight = np.ones(len(y)) if weight is None else weight
    called, true = model.predict(X) == label, np.asarray(y) == label
    sides = (called & true, ~called & true, called & ~true, ~called & ~true)
    return [float(weight[side].sum()) for side in sides]


def at_chosen(page):
    return [page.data[name][page.data["chosen"]] for name in COUNTS]
