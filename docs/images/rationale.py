"""The README's picture, from a made-up review and the model that `make search` registers.

make search && .venv/bin/python docs/images/rationale.py > docs/images/rationale.svg
"""

import json
import random
import subprocess
import sys
from html import escape

from feature_store import sample

MODEL = "models:/infocal-beer-palate@challenger"
CHARACTER, LINE, LEFT, TOP = 8.4, 28, 24, 78
"""Width of a character of a monospaced font of 14 units, height of a line, and where the text begins."""
LINE_LENGTH = 88
STYLE = """
  text { font: 14px ui-monospace, Menlo, Consolas, 'DejaVu Sans Mono', monospace; fill: #1f2328 }
  .head { font: 600 15px system-ui, 'Segoe UI', 'DejaVu Sans', sans-serif }
  .legend { font: 13px system-ui, 'Segoe UI', 'DejaVu Sans', sans-serif; fill: #57606a }
  .page { fill: #ffffff; stroke: #d0d7de } .model { fill: #ffe08a }
  .human { stroke: #0b6e99; stroke-width: 3 }
  @media (prefers-color-scheme: dark) {
    text { fill: #e6edf3 } .legend { fill: #9aa4af } .page { fill: #0d1117; stroke: #30363d }
    .model { fill: #6b4e00 } .human { stroke: #58b6e0 }
  }
"""


def places(tokens: list[str]) -> list[tuple[float, float]]:
    """Left end and base line of each token, wrapped to `LINE_LENGTH` characters."""
    found, column, line = [], 0, 0
    for token in tokens:
        if column and column + len(token) > LINE_LENGTH:
            column, line = 0, line + 1
        found.append((LEFT + column * CHARACTER, TOP + line * LINE))
        column += len(token) + 1
    return found


def runs(
    marked: list[bool], at: list[tuple[float, float]], tokens: list[str]
) -> list[tuple[float, float, float]]:
    """Left end, right end and base line of each run of marked tokens on one line."""
    found: list[tuple[float, float, float]] = []
    for i, is_marked in enumerate(marked):
        if is_marked:
            left, base = at[i]
            right = left + len(tokens[i]) * CHARACTER
            if i > 0 and marked[i - 1] and found[-1][2] == base:
                left = found.pop()[0]
            found.append((left, right, base))
    return found


def main() -> None:
    """Print the picture."""
    review = sample.make_review(random.Random("a review for the README"))
    (begin, end), score = review.spans["palate"][0], review.scores[sample.ASPECTS.index("palate")]
    command = [sys.executable, "-m", "pipeline.explain", "--sample", "--json", "--model", MODEL]
    command += ["--text", " ".join(review.tokens)]
    printed = subprocess.run(command, check=True, capture_output=True, text=True)
    answer = json.loads(printed.stdout)
    at = places(review.tokens)
    height = at[-1][1] + 62
    selected = [token["selected"] for token in answer["tokens"]]
    human = [begin <= i < end for i in range(len(review.tokens))]
    parts = [
        f'<rect class="model" x="{left - 3:g}" y="{base - 16:g}" width="{right - left + 6:g}" '
        f'height="22" rx="3"/>'
        for left, right, base in runs(selected, at, review.tokens)
    ] + [
        f'<line class="human" x1="{left:g}" x2="{right:g}" y1="{base + 8:g}" y2="{base + 8:g}"/>'
        for left, right, base in runs(human, at, review.tokens)
    ]
    words = [
        f'<text x="{left:g}" y="{base:g}">{escape(token)}</text>'
        for token, (left, base) in zip(review.tokens, at, strict=True)
    ]
    legend = at[-1][1] + 40
    print(
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 800 {height:g}" role="img" '
        f'aria-label="A review, the words that people marked, and the words that the model marked">'
        f"<style>{STYLE}</style>"
        f'<rect class="page" x=".5" y=".5" width="799" height="{height - 1:g}" rx="8"/>'
        f'<text class="head" x="{LEFT}" y="40">How does the beer feel? Predicted palate: '
        f"{answer['prediction']:.2f} of 1. The review gives {score:.2f}.</text>"
        + "".join([*parts, *words])
        + f'<rect class="model" x="{LEFT}" y="{legend - 12:g}" width="26" height="16" rx="3"/>'
        f'<text class="legend" x="{LEFT + 34}" y="{legend:g}">the model\'s rationale</text>'
        f'<line class="human" x1="220" x2="246" y1="{legend - 4:g}" y2="{legend - 4:g}"/>'
        f'<text class="legend" x="254" y="{legend:g}">the human rationale</text></svg>'
    )


if __name__ == "__main__":
    main()
