"""Draw docs/pictures; scripts/pictures calls this.

X.svg is drawn from X.dot by graphviz, demo.svg from demo.txt by rich.
A graph's source begins with its title and what the picture says, for readers who don't see it: lines with ``// ``.
Each picture has a digest of its source and of itself, so that --check needs no graphviz.
"""

from __future__ import annotations

import hashlib
import re
import subprocess
import sys
from dataclasses import dataclass
from html import escape
from io import StringIO
from pathlib import Path

FOLDER = Path(__file__).resolve().parent.parent / "docs/pictures"
FONTS = {"DejaVu Sans": "DejaVu Sans, Verdana, sans-serif", "DejaVu Sans Mono": "DejaVu Sans Mono, Menlo, Consolas, monospace"}
DEMO = "demo.txt"
DEMO_TITLE = "What make demo prints"
DEMO_DESCRIPTION = (
    "A recorded terminal. make demo makes a SLURM cluster in four containers, shows its nodes and GPUs, and a job for one GPU of type t4, "
    "which opens its device and no other. Run again, it changes nothing, and runs another job."
)
COLUMNS = 90


@dataclass
class Picture:
    """One source and what is drawn from it."""

    source: Path
    style: str

    @property
    def drawing(self) -> Path:
        return self.source.with_suffix(".svg")

    def mark(self, drawn: str) -> str:
        """A comment that holds for this source and these lines after it."""
        text = self.source.read_text(encoding="utf-8") + self.style + drawn
        return f"<!-- scripts/pictures made this from {self.source.name}: {hashlib.sha256(text.encode()).hexdigest()[:16]} -->"

    def is_fresh(self) -> bool:
        if not self.drawing.exists():
            return False
        mark, _newline, drawn = self.drawing.read_text(encoding="utf-8").partition("\n")
        return mark == self.mark(drawn)

    def head(self) -> tuple[str, str]:
        """Title and description, from the comment at the source's beginning."""
        if self.source.name == DEMO:
            return DEMO_TITLE, DEMO_DESCRIPTION
        lines = []
        for line in self.source.read_text(encoding="utf-8").splitlines():
            if not line.startswith("// "):
                break
            lines.append(line[3:].strip())
        if len(lines) < 2 or not lines[0].startswith("title: "):
            raise SystemExit(f"error: {self.source.name} does not begin with `// title: ...` and lines that say what the picture shows")
        return lines[0][len("title: ") :], " ".join(lines[1:])

    def framed(self, svg: str) -> str:
        """The drawing with its title, description and style."""
        title, description = self.head()
        begin = re.search(r"<svg\b[^>]*>", svg)
        assert begin
        opening = begin.group().replace("<svg", '<svg role="img" xml:space="preserve" aria-labelledby="title description"', 1)
        texts = f'<title id="title">{escape(title)}</title>\n<desc id="description">{escape(description)}</desc>'
        style = f"<style>\n{self.style}</style>\n" if self.style else ""
        return f"{opening}\n{texts}\n{style}{svg[begin.end() :].lstrip()}"

    def draw(self) -> None:
        svg = terminal(self.source) if self.source.name == DEMO else graph(self.source)
        drawn = self.framed(svg)
        self.drawing.write_text(f"{self.mark(drawn)}\n{drawn}", encoding="utf-8")


def graph(source: Path) -> str:
    svg = subprocess.run(["dot", "-Tsvg", source], check=True, stdout=subprocess.PIPE, text=True).stdout
    # Titles of single nodes and edges are names in the source, of no use to a reader.
    svg = re.sub(r"<title>.*?</title>\n|<!--.*?-->\n", "", svg, flags=re.DOTALL)
    for face, stack in FONTS.items():
        svg = svg.replace(f'font-family="{face}"', f'font-family="{stack}"')
    return svg


def terminal(source: Path) -> str:
    """Draw a window with the text as printed: commands bold, and nothing else added."""
    # --check runs without the toolchain.
    from rich.console import CONSOLE_SVG_FORMAT, Console
    from rich.text import Text

    console = Console(record=True, width=COLUMNS, file=StringIO(), legacy_windows=False)
    for line in source.read_text(encoding="utf-8").splitlines():
        text = Text.from_ansi(line)
        if line.startswith("$ "):
            text.stylize("bold")
        console.print(text, highlight=False)
    # Its fonts are loaded from elsewhere, which a picture in a page may not do.
    form = re.sub(r"@font-face \{\{.*?\}\}", "", CONSOLE_SVG_FORMAT, flags=re.DOTALL).replace(
        "Fira Code, monospace", FONTS["DejaVu Sans Mono"]
    )
    return console.export_svg(title="make demo", code_format=form, unique_id="demo")


def pictures() -> list[Picture]:
    style = (FOLDER / "style.css").read_text(encoding="utf-8")
    drawn = [Picture(source, style) for source in sorted(FOLDER.glob("*.dot"))]
    return drawn + [Picture(source, "") for source in FOLDER.glob(DEMO)]


def main() -> None:
    every = pictures()
    stale = [picture for picture in every if not picture.is_fresh()]
    if "--check" in sys.argv[1:]:
        for picture in stale:
            print(f"{picture.drawing.name} is not what {picture.source.name} and style.css give now: make pictures")
        strange = set(FOLDER.glob("*.svg")) - {picture.drawing for picture in every}
        for path in sorted(strange):
            print(f"{path.name} has no source beside it")
        sys.exit(bool(stale or strange))
    for picture in every if "--all" in sys.argv[1:] else stale:
        picture.draw()
        print(f"docs/pictures/{picture.drawing.name}")


if __name__ == "__main__":
    main()
