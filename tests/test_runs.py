"""Output folders are left as they were by a command that is refused."""

import contextlib

import pytest

from linstereo.errors import InputError
from linstereo.runs import check_output_folder, output_folder


class Refused(Exception):
    pass


def refuse(folder, *files, notes=()):
    with contextlib.suppress(Refused), output_folder(folder, notes=notes) as path:
        for file in files:
            (path / file).parent.mkdir(parents=True, exist_ok=True)
            (path / file).write_text("new")
        raise Refused


def test_folders_that_were_made_are_removed(tmp_path):
    refuse(tmp_path / "a/b/c")
    assert not list(tmp_path.iterdir())
    (tmp_path / "a").mkdir()
    refuse(tmp_path / "a/b/c")
    assert [path.name for path in tmp_path.rglob("*")] == ["a"]


def test_notes_without_results_are_removed_too(tmp_path):
    refuse(tmp_path / "run", "settings.json", "target/mesh.obj", notes=["settings.json", "target"])
    assert not list(tmp_path.iterdir())


def test_results_stay_with_their_notes(tmp_path):
    refuse(tmp_path / "run", "settings.json", "left/0.png", notes=["settings.json"])
    assert (tmp_path / "run/settings.json").exists()
    assert (tmp_path / "run/left/0.png").exists()


def test_what_was_there_before_stays(tmp_path):
    (tmp_path / "settings.json").write_text("old")
    (tmp_path / "empty").mkdir()
    refuse(tmp_path, "settings.json", "more.json", notes=["settings.json", "more.json"])
    assert {path.name for path in tmp_path.iterdir()} == {"settings.json", "empty"}


def test_a_block_that_succeeds_keeps_everything(tmp_path):
    with output_folder(tmp_path / "run", notes=["settings.json"]) as path:
        (path / "settings.json").write_text("new")
    assert (tmp_path / "run/settings.json").exists()


@pytest.mark.parametrize("name", ["file", "file/below", "x" * 300, "new/" + "x" * 300])
def test_folders_that_cannot_be(tmp_path, name):
    (tmp_path / "file").write_text("")
    for attempt in (check_output_folder, lambda folder: refuse(folder)):
        with pytest.raises(InputError, match=r"is a file; give a folder|cannot write into the folder"):
            attempt(tmp_path / name)
        assert [path.name for path in tmp_path.rglob("*")] == ["file"]


def test_checking_leaves_nothing(tmp_path):
    check_output_folder(tmp_path / "a/b")
    check_output_folder(tmp_path)
    assert not list(tmp_path.iterdir())
    with pytest.raises(InputError, match="/proc"):
        check_output_folder("/proc/nope")


def test_an_output_folder_is_made_and_kept(tmp_path):
    with output_folder(tmp_path / "a/b") as folder:
        assert list(folder.iterdir()) == []
    assert (tmp_path / "a/b").is_dir()


def test_an_output_folder_without_results_is_removed_after_an_error(tmp_path):
    (tmp_path / "there").mkdir()
    for name in ("a/b", "there", "there/c"):
        with pytest.raises(InputError, match="no"), output_folder(tmp_path / name):
            raise InputError("no")
    assert [path.name for path in tmp_path.rglob("*")] == ["there"]
    with contextlib.suppress(InputError), output_folder(tmp_path / "a/b") as folder:
        (folder / "result").touch()
        raise InputError("no")
    assert (tmp_path / "a/b/result").exists()


def test_an_output_folder_that_cannot_be(tmp_path):
    (tmp_path / "file").touch()
    for name, complaint in (
        ("file", "is a file"),
        ("file/deep", "cannot write into"),
        ("x" * 300, "cannot write into"),
    ):
        with pytest.raises(InputError, match=complaint), output_folder(tmp_path / name):
            pytest.fail("not told")
    with pytest.raises(InputError, match="cannot be a file name"), output_folder("a\0b"):
        pytest.fail("not told")
