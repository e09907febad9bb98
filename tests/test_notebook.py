"""The notebook in examples/ runs from top to bottom, shows the result, and is kept without outputs."""

import asyncio
from pathlib import Path

import nbformat
import pytest

NOTEBOOK = Path(__file__).resolve().parents[1] / "examples/points.ipynb"


def outputs(notebook, kind):
    """What all cells give of one kind: the text of streams, or the data of results by type."""
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    return [output for cell in cells for output in cell.outputs if output.output_type == kind]


def test_it_is_kept_without_outputs():
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    nbformat.validate(notebook)
    assert all(not cell.outputs and cell.execution_count is None for cell in notebook.cells if cell.cell_type == "code")


def test_it_runs_and_shows_the_result():
    nbclient = pytest.importorskip("nbclient")
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    client = nbclient.NotebookClient(notebook, timeout=600, resources={"metadata": {"path": str(NOTEBOOK.parent)}})
    asyncio.run(client.async_execute())
    pictures = [
        output.data["image/png"] for output in outputs(notebook, "execute_result") if "image/png" in output.data
    ]
    assert len(pictures) == 1
    printed = "".join(output.text for output in outputs(notebook, "stream"))
    assert "disparity, px: (480, 640) float32" in printed
    assert "points kept" in printed
    assert "room_cloud.ply" in printed
    assert "room_confidence_colour.png" in printed
