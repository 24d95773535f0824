"""Put the results of `evenmargin reproduce --all` into docs/reproduction.md.

        python benchmarks/reproduction.py FOLDER        the folder with the results, by default "reproduction"

The page has a pair of comments for each table, <!-- NAME --> and <!-- end -->. The text between them is
replaced by the sheets and findings of FOLDER/NAME.md, and by the figure if there is one, which is copied to
docs/figures.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

PAGE = Path(__file__).parents[1] / "docs" / "reproduction.md"
LONGEST = 60  # lines of a sheet
FIGURES = PAGE.parent / "figures"


def shortened(part: str) -> str:
    """The title alone of a sheet with many lines."""
    lines = part.count("\n|")
    return part if lines <= LONGEST else f"{part.splitlines()[0]}\n\n{lines - 2} lines, which the command writes."


def filled(page: str, folder: Path) -> str:
    """The page with each table's results between its comments."""

    def results(found: re.Match[str]) -> str:
        path = folder / f"{found[1]}.md"
        if not path.exists():
            print(f"{path} does not exist: {found[1]} is left as it is.", file=sys.stderr)
            return found[0]
        _, _, setting, *sheets = re.split(r"\n\n(?!\|)", path.read_text().strip())
        body = "\n\n".join(map(shortened, sheets)).replace("\n## ", "\n#### ").replace("## ", "#### ", 1)
        figure = folder / f"{found[1]}.svg"
        if figure.exists():
            FIGURES.mkdir(exist_ok=True)
            (FIGURES / figure.name).write_bytes(figure.read_bytes())
            body += f"\n\n![{found[1]}](figures/{figure.name})"
        return f"<!-- {found[1]} -->\n\n{setting}\n\n{body}\n\n<!-- end -->"

    return re.sub(r"<!-- ([\w-]+) -->\n.*?<!-- end -->", results, page, flags=re.S)


if __name__ == "__main__":
    PAGE.write_text(filled(PAGE.read_text(), Path(sys.argv[1] if len(sys.argv) > 1 else "reproduction")))
