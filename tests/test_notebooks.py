"""The notebooks in examples/ run, and show what they should: tables, progress and pictures."""

from pathlib import Path

import pytest

FOLDER = Path(__file__).parent.parent / "examples" / "notebooks"


def outputs(name, tmp_path):
    """The outputs of each code cell of a notebook, after it was executed in a new kernel."""
    nbformat, nbclient = pytest.importorskip("nbformat"), pytest.importorskip("nbclient")
    pytest.importorskip("ipykernel")
    notebook = nbformat.read(FOLDER / f"{name}.ipynb", as_version=4)
    nbclient.NotebookClient(notebook, timeout=600, resources={"metadata": {"path": str(tmp_path)}}).execute()
    return [cell.outputs for cell in notebook.cells if cell.cell_type == "code"]


def kinds(cell):
    """The kinds of content that a cell shows."""
    return {kind for output in cell for kind in output.get("data", {})}


@pytest.mark.slow
@pytest.mark.filterwarnings("default")  # those of Jupyter's own packages
@pytest.mark.parametrize(
    ("name", "tables", "pictures"),
    [("first-steps", (0, 2, 3), (1, 4)), ("own-problem", (0, 3, 4, 5, 6), (1,)), ("studies", (0, 1), (2, 4))],
)
def test_a_notebook_runs_and_shows_tables_and_pictures(name, tables, pictures, tmp_path, monkeypatch):
    """In `studies`, the figure of cell 4 is drawn by pyplot after `make_figures`: it must still be shown."""
    monkeypatch.delenv("MPLBACKEND", raising=False)  # the kernel chooses its own
    cells = outputs(name, tmp_path)
    assert all("text/html" in kinds(cells[i]) for i in tables)
    assert all("image/png" in kinds(cells[i]) for i in pictures)
    text = str(cells)
    assert "object at 0x" not in text
    if name == "studies":
        assert "16 of 16" in str(cells[0]) and "24 of 24" in str(cells[1]) and "with violations" in text


def test_notebooks_are_stored_without_outputs():
    for file in FOLDER.glob("*.ipynb"):
        text = file.read_text(encoding="utf-8")
        assert '"outputs": []' in text and "image/png" not in text and '"execution_count": 1' not in text
    assert len(list(FOLDER.glob("*.ipynb"))) == 3
