"""What a model keeps in mind of the table that it was fitted on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from ._reading import InputError

__all__ = ["AS_ASKED", "Column", "Schema"]

AS_ASKED = "as asked"  # why a column was left out, if the user said so


@dataclass(frozen=True)
class Column:
    """A column that a model was fitted on; its kind is "number", "category" or "date"."""

    name: str
    kind: str


@dataclass(frozen=True)
class Schema:
    """What a model was fitted on; it travels with the model.

    Attributes
    ----------
    target : str
        The column of labels.
    positive : str
        The label that is looked for, as text.
    others : tuple of str
        The other labels.
    label_type : str
        "text", "number" (whole ones) or "bool": what labels are in y.
    grouped : bool
        Whether every value of the target but `positive` is the one label in `others`.
    columns : tuple of Column
        In the order in which the model knows them.
    left_out : mapping of str to str
        Other columns, and why.
    decimal_comma : bool
        Whether numbers of its file had decimal commas; see `TableFile.expect`.
    vocabulary : mapping of str to tuple of str
        The words of each column of categories that has not too many.
    """

    target: str
    positive: str
    others: tuple[str, ...]
    label_type: str
    grouped: bool
    columns: tuple[Column, ...]
    left_out: Mapping[str, str] = field(default_factory=dict)
    decimal_comma: bool = False
    vocabulary: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @property
    def names(self) -> list[str]:
        """Of the columns."""
        return [column.name for column in self.columns]

    @property
    def words(self) -> list[str]:
        """Columns that a text file must give as they stand in it."""
        return [column.name for column in self.columns if column.kind != "number"]

    def to_notes(self) -> dict[str, Any]:
        """What JSON can hold."""
        return {**asdict(self), "columns": [[column.name, column.kind] for column in self.columns]}

    @classmethod
    def from_notes(cls, notes: Mapping[str, Any]) -> Schema:
        """The schema again.

        Examples
        --------
        >>> from evenmargin.cli._columns import Column, Schema
        >>> schema = Schema("fraud", "yes", ("no",), "text", False, (Column("amount", "number"),))
        >>> Schema.from_notes(schema.to_notes()) == schema
        True
        """
        try:
            return cls(
                str(notes["target"]),
                str(notes["positive"]),
                tuple(map(str, notes["others"])),
                str(notes["label_type"]),
                bool(notes["grouped"]),
                tuple(Column(str(name), str(kind)) for name, kind in notes["columns"]),
                {str(name): str(why) for name, why in notes["left_out"].items()},
                bool(notes.get("decimal_comma", False)),
                {str(name): tuple(map(str, words)) for name, words in notes.get("vocabulary", {}).items()},
            )
        except (KeyError, TypeError, ValueError, AttributeError):
            raise InputError("The notes on the table in the model file cannot be read: fit the model again.") from None
