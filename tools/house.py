"""The picture of the house in docs/design.md: `python tools/house.py` draws docs/house.svg again."""

from pathlib import Path

PAGE = Path(__file__).parent.parent / "docs" / "house.svg"
WIDTH, HEIGHT, FLOOR, LEFT, RIGHT = 940, 590, 56, 30, 490
BLIND = [  # what an agent may know, from the bottom to the top
    [("kernels", "compiled loops")],
    [("tables", "What exists?")],
    [("data", "What was observed?")],
    [("sets", "What is plausible?"), ("knowledge", "What is known already?")],
    [("planning", "What would it earn?")],
    [("certificates", "What may be risked?")],
    [("agents", "Who decides?")],
    [("live", "What happens for real?")],
]
SEEING = [  # what is true
    [("problems", "What is the truth?")],
    [("solve", "Exact answers")],
    [("simulation", "How does a run go?")],
    [("evaluation", "What did a run earn?")],
    [("forecasting", "How long will it take?"), ("rehearsal", "Will it survive?")],
]
ROOF = [("service", "over HTTP"), ("bandits", "one state"), ("gym", "environments"), ("testing", "rules"),
        ("studies", "many runs"), ("cli", "commands")]  # fmt: skip
TITLE, WALL = "The rooms of the package, as a house", "nothing passes this wall from right to left"
STYLE = """
text { font: 14px system-ui, sans-serif; fill: #1d2b2a; } .name { font-weight: 600; } .says { font-size: 12px; }
rect { fill: #f4faf9; stroke: #00796b; stroke-width: 1.5; } .roof { fill: #e0f2f1; } .wall { stroke: #b71c1c;
stroke-width: 4; stroke-dasharray: 10 5; } .label { font-size: 12.5px; font-style: italic; } .red { fill: #b71c1c; }
@media (prefers-color-scheme: dark) { text { fill: #e6efee; } rect { fill: #1e2b2a; stroke: #4db6ac; }
.roof { fill: #24403d; } .wall { stroke: #ef9a9a; } .red { fill: #ef9a9a; } }
"""


def room(x: float, y: float, width: float, name: str, says: str, kind: str = "") -> str:
    """One room: a box with its name and its question."""
    middle = x + width / 2
    return (
        f'<rect class="{kind}" x="{x:.0f}" y="{y:.0f}" width="{width:.0f}" height="{FLOOR - 8}" rx="5"/>'
        f'<text class="name" x="{middle:.0f}" y="{y + 20:.0f}" text-anchor="middle">{name}</text>'
        f'<text class="says" x="{middle:.0f}" y="{y + 37:.0f}" text-anchor="middle">{says}</text>'
    )


def wing(floors: list[list[tuple[str, str]]], x: float, width: float, ground: float) -> list[str]:
    """Floors above each other; rooms of one floor beside each other."""
    return [
        room(x + i * width / len(floor), ground - (level + 1) * FLOOR, width / len(floor) - 8, *each)
        for level, floor in enumerate(floors)
        for i, each in enumerate(floor)
    ]


def house() -> str:
    """The whole picture."""
    ground, wide = HEIGHT - 40, (WIDTH - 2 * LEFT) / len(ROOF)
    top = ground - len(BLIND) * FLOOR - 40
    parts = [
        *wing(BLIND, LEFT, 420, ground),
        *wing(SEEING, RIGHT, 420, ground),
        *(room(LEFT + i * wide, top - FLOOR, wide - 8, *each, "roof") for i, each in enumerate(ROOF)),
        f'<line class="wall" x1="468" y1="{ground - len(BLIND) * FLOOR}" x2="468" y2="{ground - 8}"/>',
        f'<text class="label" x="{LEFT}" y="{ground + 18}">what an agent in the real world may know</text>',
        f'<text class="label" x="{RIGHT}" y="{ground + 18}">what is true: agents never look here</text>',
        f'<text class="label red" x="{RIGHT}" y="{ground - len(SEEING) * FLOOR - 20}">{WALL}</text>',
        f'<text class="label" x="{LEFT}" y="{top + 16}">Every room imports from rooms below it only.</text>',
    ]
    begin = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{TITLE}">'
    return "\n".join([begin, f"<style>{STYLE}</style>", *parts, "</svg>", ""])


if __name__ == "__main__":
    PAGE.write_text(house(), encoding="utf-8")
