"""Tables from files, whole or in pieces of bounded memory.

The format is told by the content: text with a separator, Parquet, Arrow, libsvm,
any of them compressed. What cannot be read is one sentence, an `InputError`.

**Types.** A column of a text file is read as numbers where every value is one (or
as booleans), else as text with each word as it stands in the file. Read whole that
is decided over all rows. In pieces it can only be decided piece by piece, so a
model names its columns of `words`, which are read as text in every piece; what is
not a number in the others is for `_columns.Matcher` to judge. Parquet and Arrow have
types of their own. `_columns` makes the same table of all of them.

**Text** is checked before pandas sees it, in blocks of bytes: encoding, NUL bytes,
and the number of fields in each line, of which pandas would fill up the short ones in silence.
"""

from __future__ import annotations

from ._base import InputError, TableFile
from ._digest import fingerprint
from ._open import TextOptions, open_table

__all__ = ["InputError", "TableFile", "TextOptions", "fingerprint", "open_table"]
