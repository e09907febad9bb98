"""One grammar for datasets on the command line and in recipes."""

from pathlib import Path

import pytest
from tests.data import layouts

from linstereo.cli import main
from linstereo.data.datasets.naming import NamedDataset, parse_dataset
from linstereo.errors import InputError


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("kitti2015=data/kitti", ("kitti2015", None, "data/kitti")),
        ("tank:test-frame=/tank", ("tank", "test-frame", "/tank")),
        ("folder=/a=b", ("folder", None, "/a=b")),
        ("folder=/a:b/c", ("folder", None, "/a:b/c")),
        ("folder:val=/a:b", ("folder", "val", "/a:b")),
        ("folder=C:\\pairs", ("folder", None, "C:\\pairs")),
    ],
)
def test_name_split_and_root(text: str, expected: tuple[str, str | None, str]) -> None:
    name, split, root = expected
    assert parse_dataset(text, what="--benchmark") == NamedDataset(name, split, Path(root))


@pytest.mark.parametrize("text", ["", "kitti2015", "kitti2015=", "=data", ":train=data", "kitti2015:=data"])
def test_what_is_no_dataset(text: str) -> None:
    with pytest.raises(InputError, match=r"^--data '.*' is not understood; write NAME=ROOT or NAME:SPLIT=ROOT.* or x$"):
        parse_dataset(text, what="--data", otherwise=", or x")


def test_a_split_behind_the_folder_is_corrected() -> None:
    with pytest.raises(InputError, match=r"has its split behind the folder; write folder:val-1=/my/pairs$"):
        parse_dataset("folder=/my/pairs:val-1", what="--data")


def test_a_folder_may_end_as_a_split_would(tmp_path: Path) -> None:
    root = tmp_path / "pairs:val"
    root.mkdir()
    assert parse_dataset(f"folder={root}", what="--data") == NamedDataset("folder", None, root)


@pytest.mark.parametrize(
    "command",
    [
        ["train", "--config=compact", "--data"],
        ["train", "--config=compact", "--data=folder=pairs", "--validation"],
        ["ablate", "--config=compact", "--data=folder=pairs", "--validation=folder=pairs", "--benchmark"],
        ["evaluate", "--method=sgbm", "--benchmark"],
        ["submit", "--method=sgbm", "--name=Mine", "--seconds=1", "--benchmark"],
    ],
)
def test_every_command_has_the_same_grammar(
    command: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    layouts.make_folder(tmp_path / "pairs")
    assert main([*command, "eth3d=eth:train", "--out=out"]) == 2
    assert "has its split behind the folder; write eth3d:train=eth\n" in capsys.readouterr().err
    assert main([*command, "eth3d:train=eth", "--out=out"]) == 2
    assert "eth3d: the folder eth does not exist" in capsys.readouterr().err
