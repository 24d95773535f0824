"""Model files: checked before they are opened, and unable to run code.

A model file is a zip that skops writes and reads (`schema.json` says what the model is made of, arrays lie beside it),
with one more member, `evenmargin.json`: who wrote it, when, and notes. The comment of the archive is the seal, that is,
the number of the format and a checksum of all bytes before it:

    evenmargin-model 2 sha256:…

The seal protects against accidents: a file that was cut short, or changed anywhere, is refused before any of it is
read. Whoever forges a file can forge its checksum, too. Against malice:

- Types are built only if they are on a list: `TRUSTED`, which holds the types of this package (by their names in
  `types`, so that files outlive the layout of the package) and what usually stands around them, then estimators of
  scikit-learn, ufuncs and plain values. A file cannot add to the list, and no module of another package is imported
  on its behalf. Skops checks every name again, against a list of its own.
- Each type may be built in one way only: an estimator as an object, a loss as a tuple. Of the ways in which skops can
  make a value, those that call something of the file's choice (bound methods, partial functions, operators,
  constructors) are refused, and keys of dicts are words and numbers.
- Arrays must be as long as they say, indices of sparse matrices within their shape.
- A file unpacks to 64 times its size at most (or 64 MiB, if that is more), and holds 200 000 parts at most, which take
  less than 1 GB.

What remains possible: a forged file may hold a model that predicts nonsense, or one of scikit-learn's estimators with
numbers that its compiled code does not expect.
"""

from __future__ import annotations

from ._file import ModelFileError
from ._load import load, load_with_manifest, read_manifest
from ._manifest import Manifest
from ._save import save
from ._trusted import TRUSTED

__all__ = ["TRUSTED", "Manifest", "ModelFileError", "load", "load_with_manifest", "read_manifest", "save"]
