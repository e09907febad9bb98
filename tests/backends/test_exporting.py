"""A file is kept only if it computes what PyTorch computes."""

import pytest

from linstereo.backends import exporting
from linstereo.cli import main


def test_a_file_that_differs_is_not_kept(tiny_checkpoint, tmp_path, monkeypatch, capsys):
    right = exporting.onnx_model

    def wrong(model, **settings):
        kept = model.residual_head.out.bias.data.clone()
        model.residual_head.out.bias.data += 1
        try:
            return right(model, **settings)
        finally:
            model.residual_head.out.bias.data = kept

    monkeypatch.setattr(exporting, "onnx_model", wrong)
    target = tmp_path / "model.onnx"
    assert main(["export", "--model", str(tiny_checkpoint), "--iters", "1", "--out", str(target)]) == 2
    assert "differs from PyTorch's by" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_a_file_whose_confidence_differs_is_not_kept(tiny_checkpoint, tmp_path, monkeypatch, capsys):
    right = exporting.onnx_model

    def wrong(model, **settings):
        kept = model.confidence_head.out.bias.data.clone()
        model.confidence_head.out.bias.data += 1
        try:
            return right(model, **settings)
        finally:
            model.confidence_head.out.bias.data = kept

    monkeypatch.setattr(exporting, "onnx_model", wrong)
    target = tmp_path / "model.onnx"
    assert main(["export", "--model", str(tiny_checkpoint), "--iters", "1", "--out", str(target)]) == 2
    assert "in its confidence on images of" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["model.bin", "model", "folder.onnx"])
def test_names_that_are_not_of_onnx_files(name, tiny_checkpoint, tmp_path, capsys):
    (tmp_path / "folder.onnx").mkdir()
    assert main(["export", "--model", str(tiny_checkpoint), "--out", str(tmp_path / name)]) == 2
    assert "ends with .onnx" in capsys.readouterr().err
