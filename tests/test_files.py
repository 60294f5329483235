"""Where files may be written, and what is left of what was there: links, modes, pipes, devices, killed saves."""

import os
import signal
import socket
import stat
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

import budgetline
from budgetline import AnytimeRegressor, Certificate, Moments, make_report
from budgetline.files import replacing, write_atomically


@pytest.fixture(scope="module")
def model():
    X = np.random.default_rng(0).normal(size=(30, 3))
    return AnytimeRegressor(costs=[1, 2, 3]).fit(X, X @ [1.0, 0.5, 0.1])


@pytest.fixture
def umask():
    before = os.umask(0o022)
    yield os.umask
    os.umask(before)


WRITERS = {
    "a model": lambda model, path: budgetline.save(model, path),
    "moments": lambda model, path: Moments.from_data([[1.0], [3.0]], [0.0, 1.0]).save(path),
    "a certificate": lambda model, path: model.certificate(time_limit=0).save(path),
    "a graph": lambda model, path: budgetline.to_onnx(model, path),
    "a report": lambda model, path: make_report(model).write(path),
}


def mode_of(path):
    return stat.S_IMODE(os.stat(path).st_mode)


# -- links -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("what", WRITERS)
def test_a_link_is_followed_and_stays(what, model, tmp_path):
    (tmp_path / "there").mkdir()
    target, link = tmp_path / "there" / "target.md", tmp_path / "link.md"
    link.symlink_to("there/target.md")
    for _ in range(2):  # first it leads nowhere, then to a file
        WRITERS[what](model, link)
        assert link.is_symlink()
        assert target.is_file()
        assert not target.is_symlink()
        assert target.stat().st_size > 10
    assert sorted(os.listdir(tmp_path)) == ["link.md", "there"]
    assert os.listdir(tmp_path / "there") == ["target.md"]


def test_a_chain_of_links_is_followed_to_its_end(tmp_path):
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to(tmp_path / "c")
    write_atomically(tmp_path / "a", b"data")
    assert (tmp_path / "a").is_symlink()
    assert (tmp_path / "b").is_symlink()
    assert (tmp_path / "c").read_bytes() == b"data"


def test_links_in_a_circle_and_into_nowhere_are_errors_that_name_the_path(tmp_path):
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    (tmp_path / "lost").symlink_to("no/folder/here")
    for name in ("a", "lost"):
        with pytest.raises(OSError) as error:  # noqa: PT011
            write_atomically(tmp_path / name, b"data")
        assert error.value.filename == str(tmp_path / name)
    assert sorted(os.listdir(tmp_path)) == ["a", "b", "lost"]


# -- what is no file -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("what", WRITERS)
def test_a_pipe_is_written_to(what, model, tmp_path):
    pipe, plain, found = tmp_path / "pipe.md", tmp_path / "plain.md", []
    os.mkfifo(pipe)
    reader = threading.Thread(target=lambda: found.append(pipe.read_bytes()), daemon=True)
    reader.start()
    WRITERS[what](model, pipe)
    reader.join(20)
    WRITERS[what](model, plain)
    assert stat.S_ISFIFO(os.stat(pipe).st_mode)
    assert [len(data) for data in found] == [plain.stat().st_size]
    assert sorted(os.listdir(tmp_path)) == ["pipe.md", "plain.md"]


def test_a_device_is_written_to_and_stays_one(model, tmp_path):
    device = tmp_path / "null"
    try:
        os.mknod(device, 0o666 | stat.S_IFCHR, os.makedev(1, 3))
        device.write_bytes(b"")
    except OSError:
        pytest.skip("this user may not make devices")
    (tmp_path / "link").symlink_to("null")
    budgetline.save(model, device)
    budgetline.save(model, tmp_path / "link")
    assert stat.S_ISCHR(os.lstat(device).st_mode)
    assert (tmp_path / "link").is_symlink()
    assert sorted(os.listdir(tmp_path)) == ["link", "null"]


def test_folders_and_sockets_are_refused(model, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # the names of sockets must be short
    os.mkdir("folder")
    with socket.socket(socket.AF_UNIX) as unix:
        unix.bind("socket")
        for name, why in (("folder", "it is a folder"), ("socket", "it is a socket")):
            with pytest.raises(OSError, match=f"{why}: '{name}'"):
                budgetline.save(model, name)
    assert os.listdir("folder") == []
    assert stat.S_ISSOCK(os.stat("socket").st_mode)
    assert sorted(os.listdir()) == ["folder", "socket"]


def test_what_the_shell_has_opened_is_written_on(tmp_path):
    """Paths such as /dev/stdout mean it: nothing of it is cut off or replaced."""
    if not os.path.exists("/proc/self/fd"):
        pytest.skip("there are no links to open files")
    log = tmp_path / "log"
    log.write_bytes(b"zero ")
    with open(log, "ab") as file:
        write_atomically(f"/proc/self/fd/{file.fileno()}", b"one ")
        write_atomically(f"/dev/fd/{file.fileno()}", b"two")
    assert log.read_bytes() == b"zero one two"
    assert os.listdir(tmp_path) == ["log"]


# -- who may read it -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("what", WRITERS)
@pytest.mark.parametrize("mode", [0o600, 0o664])
def test_an_existing_file_keeps_its_mode(what, mode, model, tmp_path, umask):
    path = tmp_path / "kept.md"
    path.write_bytes(b"old")
    path.chmod(mode)
    umask(0o027)
    WRITERS[what](model, path)
    assert mode_of(path) == mode
    assert path.stat().st_size > 10


@pytest.mark.parametrize("mask", [0o022, 0o077])
def test_a_new_file_follows_the_umask(mask, tmp_path, umask):
    umask(mask)
    write_atomically(tmp_path / "new", b"data")
    assert mode_of(tmp_path / "new") == 0o666 & ~mask


@pytest.mark.parametrize("mode", [0o600, 0o640, 0o644, 0o400])
def test_an_unfinished_file_is_never_open_to_more_people(mode, tmp_path, umask):
    path = tmp_path / "kept"
    path.write_bytes(b"old")
    path.chmod(mode)
    umask(0)
    with replacing(path) as file:
        file.write(b"new")
        (beside,) = (entry for entry in tmp_path.iterdir() if entry != path)
        assert mode_of(beside) & ~mode == 0
        assert path.read_bytes() == b"old" or mode == 0o400
    assert mode_of(path) == mode


def test_the_owner_and_the_group_are_kept_where_they_can_be(tmp_path):
    path = tmp_path / "kept"
    path.write_bytes(b"old")
    try:
        os.chown(path, 12345, 23456)
    except OSError:
        pytest.skip("this user may not give files away")
    write_atomically(path, b"new")
    assert (path.stat().st_uid, path.stat().st_gid) == (12345, 23456)


def test_where_the_group_cannot_be_kept_it_may_do_no_more_than_others(tmp_path, monkeypatch):
    path = tmp_path / "kept"
    path.write_bytes(b"old")
    path.chmod(0o664)

    def refused(*_):
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "fchown", refused)
    write_atomically(path, b"new")
    assert mode_of(path) == 0o644


# -- saves that end early --------------------------------------------------------------------------------------


KILLED = """
import os, signal, sys
from budgetline.files import replacing
with replacing(sys.argv[1]) as file:
    file.write(b"half")
    os.kill(os.getpid(), signal.SIGKILL)
"""


def killed_save(path):
    """Save in a process that is killed half-way."""
    environment = {**os.environ, "PYTHONPATH": str(Path(budgetline.__file__).parents[1])}
    ended = subprocess.run([sys.executable, "-c", KILLED, str(path)], env=environment)
    assert ended.returncode == -signal.SIGKILL


def test_a_killed_save_leaves_the_old_file(tmp_path):
    path = tmp_path / "m.budgetline"
    path.write_bytes(b"old")
    killed_save(path)
    (left,) = (entry for entry in tmp_path.iterdir() if entry != path)
    assert left.name.startswith(".m.budgetline.")
    assert left.name.endswith(".unfinished")
    assert path.read_bytes() == b"old"


def test_the_last_of_two_saves_at_once_wins(tmp_path):
    path = tmp_path / "m"
    with replacing(path) as file:
        file.write(b"slow")
        write_atomically(path, b"quick")
        assert path.read_bytes() == b"quick"
    assert path.read_bytes() == b"slow"
    assert os.listdir(tmp_path) == ["m"]


def test_an_error_leaves_the_old_file_and_nothing_else(tmp_path):
    path = tmp_path / "m"
    path.write_bytes(b"old")

    def fail():
        with replacing(path) as file:
            file.write(b"half")
            raise RuntimeError("stop")

    with pytest.raises(RuntimeError, match="stop"):
        fail()
    assert path.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["m"]


def test_the_longest_names_can_be_written(tmp_path):
    for name in ("n" * 255, "ü" * 127):
        write_atomically(tmp_path / name, b"data")
        assert (tmp_path / name).read_bytes() == b"data"


def test_errors_name_the_file_that_was_asked_for(tmp_path):
    with pytest.raises(FileNotFoundError) as error:
        write_atomically(tmp_path / "nowhere" / "m", b"data")
    assert error.value.filename == str(tmp_path / "nowhere" / "m")


def test_the_folder_is_synced_after_the_file(tmp_path, monkeypatch):
    synced = []
    monkeypatch.setattr(os, "fsync", lambda number: synced.append(stat.S_ISDIR(os.fstat(number).st_mode)))
    write_atomically(tmp_path / "m", b"data")
    assert synced == [False, True]


def test_certificates_and_models_in_links_can_be_read_back(model, tmp_path):
    (tmp_path / "link").symlink_to("m")
    model.certificate(time_limit=0).save(tmp_path / "link")
    assert Certificate.load(tmp_path / "m").order.tolist() == model.order_.tolist()
