"""Output folders are left as they were by a command that is refused, and resumed by the same one."""

import contextlib
import json
import os
import subprocess
import sys

import pytest

from linstereo.errors import InputError
from linstereo.runs import RunFolder, check_output_folder, check_settings, differences, output_folder


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


def test_only_the_leading_process_makes_the_folder(tmp_path):
    with output_folder(tmp_path / "run", leads=False) as path, RunFolder.open(tmp_path / "run", leads=False) as run:
        assert path == run.path == tmp_path / "run"
        assert not path.exists()


def test_a_run_stores_its_settings_and_is_resumed_with_the_same(tmp_path):
    settings = {"seed": 3, "size": (4, 5), "method": {"name": "x"}}
    with RunFolder.open(tmp_path / "run") as run:
        assert run.settle(settings) == settings
        (run.path / "result").touch()
        (run.path / "left").mkdir()
        (run.path / "left/.0-0123456789abcdef.png").touch()  # as a kill leaves it
    with RunFolder.open(tmp_path / "run") as run:
        assert run.settle(settings) == {**settings, "size": [4, 5]}
    assert {path.name for path in (tmp_path / "run").rglob("*")} == {"settings.json", "result", "left"}
    refused = pytest.raises(InputError, match=r"other settings \(seed was 3, is 4\); use the same settings, or another")
    with refused, RunFolder.open(tmp_path / "run") as run:
        run.settle({**settings, "seed": 4})


def test_settings_without_a_result_are_not_left(tmp_path):
    with contextlib.suppress(Refused), RunFolder.open(tmp_path / "run") as run:
        run.settle({"seed": 3}, file="views.json", part="settings")
        assert json.loads((run.path / "views.json").read_text()) == {"settings": {"seed": 3}}
        raise Refused
    assert not (tmp_path / "run").exists()


def test_settings_in_a_file_that_holds_more(tmp_path):
    (tmp_path / "views.json").write_text('{"settings": {"seed": 3}, "views": [1]}')
    with RunFolder.open(tmp_path) as run:
        assert run.settle({"seed": 3}, file="views.json", part="settings")["views"] == [1]
        with pytest.raises(InputError, match="seed was 3, is unset"):
            run.settle({}, file="views.json", part="settings")


@pytest.mark.parametrize("text", ["", "{", "[]", "null", "{}", "[" * 5000])
def test_damaged_settings_are_told(tmp_path, text):
    (tmp_path / "views.json").write_text(text)
    with RunFolder.open(tmp_path) as run, pytest.raises(InputError, match=r"views\.json"):
        run.settle({"seed": 3}, file="views.json", part="settings")


def test_a_folder_of_something_else_is_not_taken(tmp_path):
    (tmp_path / "holiday.jpg").touch()
    with RunFolder.open(tmp_path) as run, pytest.raises(InputError, match=r"not empty and holds no settings\.json"):
        run.settle({"seed": 3})


def test_one_run_at_a_time(tmp_path):
    with RunFolder.open(tmp_path / "run", notes=["notes"]) as run:
        (run.path / "notes").touch()
        for _ in range(2):
            refused = pytest.raises(
                InputError, match=r"another run is writing to .*run; wait for it, or choose another"
            )
            with refused, RunFolder.open(tmp_path / "run", notes=["notes"]):
                pytest.fail("not locked")
    with RunFolder.open(tmp_path / "run"):
        pass
    assert [path.name for path in (tmp_path / "run").iterdir()] == ["notes"]


def test_what_a_refused_run_leaves_alone_is_that_of_the_other(tmp_path):
    """A note that the other run writes while this one looks at the folder is not this one's to remove."""
    with (
        RunFolder.open(tmp_path) as run,
        contextlib.suppress(Refused),
        output_folder(tmp_path, notes=["settings.json"]),
    ):
        run.settle({"seed": 3})
        raise Refused
    assert (tmp_path / "settings.json").exists()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there are no forked processes")
def test_the_lock_ends_with_its_process_though_its_children_live_on(tmp_path):
    script = """
import os, sys, time
from linstereo.runs import RunFolder
with RunFolder.open(sys.argv[1]) as run:
    if not os.fork():
        print(os.getpid(), file=(run.path / "child").open("w"), flush=True)
        time.sleep(600)
    while not (run.path / "child").exists() or not (run.path / "child").read_text().endswith("\\n"):
        time.sleep(0.01)
    os._exit(9)
"""
    subprocess.run([sys.executable, "-c", script, str(tmp_path)], check=False)
    child = int((tmp_path / "child").read_text())
    try:
        with RunFolder.open(tmp_path) as run:
            assert run.path == tmp_path
            os.kill(child, 0)  # which raises unless it still lives
    finally:
        os.kill(child, 9)


def test_differences_are_told_briefly():
    assert differences({"a": 1, "b": {"c": (1, 2)}}, {"a": 1, "b": {"c": [1, 2]}}) == ""
    assert differences({"a": None}, {}) == ""
    assert differences({"b": {"c": 1, "d": 2}}, {"b": {"c": "x", "d": 2}}) == 'b.c was 1, is "x"'
    assert differences({"mesh": "0" * 64}, {"mesh": "1" * 64}) == "the content of mesh has changed"
    long = differences({"text": "x" * 100}, {})
    assert long.startswith('text was "xxx')
    assert len(long) < 80
    many = differences({}, {str(number): number for number in range(6)})
    assert many == "0 was unset, is 0; 1 was unset, is 1; 2 was unset, is 2; 3 was unset, is 3; and 2 more"


def test_settings_that_are_none_differ_in_everything(tmp_path):
    with pytest.raises(InputError, match="seed was unset, is 3"):
        check_settings(tmp_path, [1], {"seed": 3})
