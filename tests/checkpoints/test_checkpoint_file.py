"""Only whole safetensors files are read; everything else is refused in one sentence, and nothing is unpickled."""

import json
import pickle
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor

from linstereo.checkpoints.checkpoint_file import read_safetensors
from linstereo.errors import InputError

TENSORS = {
    "weight": torch.arange(12, dtype=torch.float32).reshape(3, 4),
    "half": torch.ones(5, dtype=torch.bfloat16),
    "steps": torch.tensor(7),
}


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    file = tmp_path / "model.safetensors"
    save_file(TENSORS, file, metadata={"format": "pt"})
    return file


def refusal(file: Path) -> str:
    """The message the file is refused with: one sentence that names it."""
    with pytest.raises(InputError) as caught:
        read_safetensors(file)
    message = str(caught.value)
    assert str(file) in message
    assert "\n" not in message
    assert ". " not in message
    return message


def safetensors_bytes(header: bytes, data: bytes) -> bytes:
    return len(header).to_bytes(8, "little") + header + data


def test_tensors_come_back_as_stored(checkpoint: Path) -> None:
    tensors = read_safetensors(str(checkpoint))
    assert tensors.keys() == TENSORS.keys()
    for name, tensor in TENSORS.items():
        assert tensors[name].dtype == tensor.dtype
        assert torch.equal(tensors[name], tensor)


def test_the_content_counts_and_not_the_suffix(checkpoint: Path) -> None:
    renamed = checkpoint.rename(checkpoint.with_suffix(".pth"))
    assert read_safetensors(renamed).keys() == TENSORS.keys()


@pytest.mark.parametrize("first_bytes", [b"\x80\x02", b"\x80\x04"])
def test_a_header_length_that_looks_like_a_pickle_is_read(tmp_path: Path, first_bytes: bytes) -> None:
    length = int.from_bytes(first_bytes, "little")
    entry = {"a": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}}
    file = tmp_path / "model.safetensors"
    file.write_bytes(safetensors_bytes(json.dumps(entry).encode().ljust(length), b"\0\0\x80\x3f"))
    assert file.read_bytes().startswith(first_bytes)
    assert read_safetensors(file)["a"].item() == 1.0


def test_every_truncation_is_refused(checkpoint: Path) -> None:
    content = checkpoint.read_bytes()
    for length in range(len(content)):
        checkpoint.write_bytes(content[:length])
        assert "cut short" in refusal(checkpoint)


def test_missing_file(tmp_path: Path) -> None:
    assert "does not exist" in refusal(tmp_path / "absent.safetensors")


def test_folder(tmp_path: Path) -> None:
    assert "is a folder" in refusal(tmp_path)


def test_file_below_a_file(checkpoint: Path) -> None:
    assert "cannot be read" in refusal(checkpoint / "model.safetensors")


class Trap:
    """Creates a file when it is unpickled."""

    def __init__(self, file: Path) -> None:
        self.file = file

    def __reduce__(self) -> tuple[object, ...]:
        return Path.touch, (self.file,)


@pytest.mark.parametrize("suffix", [".pt", ".safetensors", ""])
@pytest.mark.parametrize("kind", ["torch", "old torch", "pickle 2", "pickle 5"])
def test_pickles_are_named_and_never_opened(tmp_path: Path, kind: str, suffix: str) -> None:
    file, sprung = tmp_path / f"model{suffix}", tmp_path / "sprung"
    content: dict[str, Tensor | Trap] = {"weight": torch.zeros(3), "trap": Trap(sprung)}
    if kind.startswith("pickle"):
        file.write_bytes(pickle.dumps(content, protocol=int(kind[-1])))
    else:
        torch.save(content, file, _use_new_zipfile_serialization=kind == "torch")
    assert "pickled checkpoint" in refusal(file)
    assert not sprung.exists()


def test_a_file_named_like_a_pickle_is_taken_for_one(tmp_path: Path) -> None:
    file = tmp_path / "model.ckpt"
    file.write_bytes(b"any other content, as in the oldest formats")
    assert "pickled checkpoint" in refusal(file)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"<!DOCTYPE html><html><body>Not found</body></html>", "not a safetensors file"),
        (b"\x89PNG\r\n\x1a\n" + b"\0" * 40, "not a safetensors file"),
        (b"\0" * 64, "not a safetensors file"),
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 541518028\n", "Git LFS pointer"),
        (safetensors_bytes(b"{not json at all", b""), "damaged"),
        (safetensors_bytes(b'{"a": [1]}', b""), "damaged"),
        (safetensors_bytes(b'{"a": {"dtype": "F32", "shape": [2], "data_offsets": [0, 4]}}', b"1234"), "damaged"),
        (safetensors_bytes(b'{"a": {"dtype": "X9", "shape": [1], "data_offsets": [0, 4]}}', b"1234"), "damaged"),
        (safetensors_bytes(b'{"a": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}}', b"12345"), "damaged"),
    ],
)
def test_other_content_is_refused(tmp_path: Path, content: bytes, words: str) -> None:
    file = tmp_path / "model.safetensors"
    file.write_bytes(content)
    assert words in refusal(file)
