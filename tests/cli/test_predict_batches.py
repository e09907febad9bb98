"""`linstereo predict` with many pairs: checked before anything is computed, one bad pair, lists, closed outputs."""

import os
import subprocess
import sys

import numpy as np
import pytest
import torch

from linstereo.cli import main
from linstereo.data.formats.images import write_image

RESULTS = {f"{name}_disparity_px.pfm" for name in ("1", "2", "10")}


def predict(images, out, *arguments, left="left", right="right"):
    given = [str(images / left), str(images / right)] if left else []
    return main(["predict", *given, "--out", str(out), "--iters", "1", "--outputs", "disparity", *map(str, arguments)])


def damage(images, how):
    path = images / "right/10.png"
    if how == "truncated":
        path.write_bytes(path.read_bytes()[:-30])
    elif how == "other size":
        write_image(path, np.zeros((40, 64, 3), np.uint8))
    elif how == "too small":
        for side in ("left", "right"):
            write_image(images / side / "10.png", np.zeros((31, 64, 3), np.uint8))
    elif how == "no partner":
        path.unlink()
    elif how == "itself":
        path.unlink()
        path.symlink_to(images / "left/10.png")
    return path


DAMAGES = ["truncated", "other size", "too small", "no partner", "itself"]


@pytest.mark.parametrize("how", DAMAGES)
def test_the_last_bad_pair_is_told_before_the_first_is_computed(
    quick_model, images, tmp_path, capsys, monkeypatch, how
):
    monkeypatch.setattr(quick_model, "predict", lambda *args, **kwargs: pytest.fail("told too late"))
    damage(images, how)
    assert predict(images, tmp_path / "out") == 2
    message = capsys.readouterr().err
    assert message.startswith("linstereo: ")
    assert message.count("\n") == 1
    assert "10.png" in message
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("how", DAMAGES)
def test_a_bad_pair_can_be_passed_over(quick_model, images, tmp_path, capsys, how):
    damage(images, how)
    assert predict(images, tmp_path / "out", "--skip-bad") == 1
    assert {p.name for p in (tmp_path / "out").iterdir()} == RESULTS - {"10_disparity_px.pfm"}
    skipped, summary = capsys.readouterr().err.splitlines()
    assert skipped.startswith("SKIPPED: ")
    assert "10.png" in skipped
    assert summary == "1 of 3 inputs were skipped, see above why"


def test_what_only_decoding_shows_is_passed_over_too(quick_model, images, tmp_path, capsys):
    import struct
    import zlib

    body = b"IDAT" + zlib.compress(bytes(40 * (1 + 3 * 50)))[:-6] + b"\0" * 6  # whole chunks, but a broken stream
    header = b"IHDR" + struct.pack(">IIBBBBB", 50, 40, 8, 2, 0, 0, 0)
    chunks = [struct.pack(">I", len(c) - 4) + c + struct.pack(">I", zlib.crc32(c)) for c in (header, body[:9], b"IEND")]
    (images / "right/2.png").write_bytes(b"\x89PNG\r\n\x1a\n" + b"".join(chunks))
    assert predict(images, tmp_path / "out", "--skip-bad") == 1
    assert {p.name for p in (tmp_path / "out").iterdir()} == RESULTS - {"2_disparity_px.pfm"}
    assert "SKIPPED" in capsys.readouterr().err


def test_no_usable_pair_is_an_error_that_leaves_nothing_behind(quick_model, images, tmp_path, capsys):
    for path in (images / "right").iterdir():
        path.write_text("no image")
    assert predict(images, tmp_path / "out/deep", "--skip-bad") == 2
    assert "none of 3 inputs could be predicted" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_all_good_pairs_give_exit_code_0_with_skip_bad_too(quick_model, images, tmp_path):
    assert predict(images, tmp_path / "out", "--skip-bad") == 0
    assert {p.name for p in (tmp_path / "out").iterdir()} == RESULTS


def test_a_full_disk_is_no_bad_pair(quick_model, images, tmp_path, capsys, monkeypatch):
    def full(*args, **kwargs):
        from linstereo.errors import InputError

        raise InputError("cannot write: No space left on device") from OSError(28, "No space left on device")

    monkeypatch.setattr("linstereo.prediction_files.write_disparity", full)
    assert predict(images, tmp_path / "out", "--skip-bad") == 2
    assert capsys.readouterr().err == "linstereo: cannot write: No space left on device\n"


@pytest.mark.parametrize("out", ["/proc/results", "/proc/results/deep", "in/left/1.png", "in/left/1.png/deep"])
def test_an_unwritable_folder_is_told_before_the_model_is_loaded(images, tmp_path, capsys, monkeypatch, out):
    monkeypatch.setattr("linstereo.loading.load", lambda *args, **kwargs: pytest.fail("told too late"))
    assert predict(images, tmp_path / out) == 2
    message = capsys.readouterr().err
    assert message.count("\n") == 1
    assert out in message
    assert not list(tmp_path.glob("results*"))


def test_pairs_from_a_list(quick_model, images, tmp_path, monkeypatch):
    (images / "left/1.png").rename(images / "left/a b.png")
    (tmp_path / "pairs.txt").write_text('# two pairs\n"in/left/a b.png" in/right/2.png\nin/left/2.png in/right/1.png\n')
    monkeypatch.chdir(tmp_path)
    assert predict(images, "out", "--list", "pairs.txt", left=None) == 0
    assert {p.name for p in (tmp_path / "out").iterdir()} == {"a b_disparity_px.pfm", "2_disparity_px.pfm"}


def test_a_list_and_images_exclude_each_other(images, tmp_path, capsys):
    assert predict(images, tmp_path / "out", "--list", "pairs.txt") == 2
    assert "not both" in capsys.readouterr().err
    assert predict(images, tmp_path / "out", left=None) == 2
    assert "give LEFT and RIGHT, or the pairs in a text file with --list" in capsys.readouterr().err


def test_threads(quick_model, images, tmp_path, monkeypatch):
    seen = []
    original = quick_model.predict

    def counting(*args, **kwargs):
        seen.append(torch.get_num_threads())
        return original(*args, **kwargs)

    monkeypatch.setattr(quick_model, "predict", counting)
    before = torch.get_num_threads()
    assert predict(images, tmp_path / "out", "--threads", "2") == 0
    assert seen == [2, 2, 2]
    assert torch.get_num_threads() == before
    for count in ("0", "-1", "999999999", "two"):
        with pytest.raises(SystemExit) as stop:
            predict(images, tmp_path / "out", "--threads", count)
        assert stop.value.code == 2


def program(images, out, **streams):
    arguments = [str(images / "left"), str(images / "right"), "--out", str(out), "--iters", "1"]
    command = [sys.executable, "-m", "linstereo.cli", "predict", *arguments, "--outputs", "disparity", "--scale", "1"]
    return subprocess.Popen(command, stderr=subprocess.PIPE, text=True, **streams)


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="there is no /dev/full")  # noqa: PTH110
def test_a_full_output_is_no_success(images, tmp_path):
    with open("/dev/full", "w") as full, program(images, tmp_path / "out", stdout=full) as process:  # noqa: PTH123
        error = process.stderr.read()
    assert process.returncode == 2
    assert error == "linstereo: cannot write to the standard output: No space left on device; redirect it\n"


def test_a_closed_pipe_is_no_success(images, tmp_path):
    reader, writer = os.pipe()
    os.close(reader)
    with program(images, tmp_path / "out", stdout=writer) as process:
        error = process.stderr.read()
    os.close(writer)
    assert process.returncode == 141
    assert error == ""


def test_a_closed_output_is_told_before_anything_is_computed(images, tmp_path):
    with program(images, tmp_path / "out", preexec_fn=lambda: os.close(1)) as process:
        error = process.stderr.read()
    assert process.returncode == 2
    assert error == "linstereo: the standard output is closed; redirect it to a file or to /dev/null\n"
    assert not (tmp_path / "out").exists()
