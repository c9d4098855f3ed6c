"""Files are written as a whole: the old one stays until the new one is complete, and links and permissions stay too."""

import os
import stat

import pytest

from rfnb.core.atomic_file import remove_parts, whole_file, write_whole
from rfnb.core.errors import message, parts_of


@pytest.fixture
def umask():
    before = os.umask(0o027)
    yield
    os.umask(before)


def mode_of(path):
    return stat.S_IMODE(path.stat().st_mode)


def test_a_new_file_has_the_permissions_of_the_umask(tmp_path, umask):
    write_whole(tmp_path / "a", b"new")
    assert mode_of(tmp_path / "a") == 0o640


def test_an_old_file_keeps_its_permissions(tmp_path, umask):
    (tmp_path / "a").write_bytes(b"old")
    (tmp_path / "a").chmod(0o606)
    write_whole(tmp_path / "a", b"new")
    assert mode_of(tmp_path / "a") == 0o606
    assert os.listdir(tmp_path) == ["a"]


def test_a_writer_that_makes_a_file_of_its_own_changes_no_permissions(tmp_path, umask):
    with whole_file(tmp_path / "a") as part:
        (tmp_path / "own").write_bytes(b"new")
        (tmp_path / "own").chmod(0o600)
        os.replace(tmp_path / "own", part)
    assert (mode_of(tmp_path / "a"), (tmp_path / "a").read_bytes()) == (0o640, b"new")


@pytest.mark.parametrize("there", [True, False])
def test_a_link_stays_and_the_file_it_points_to_is_new(tmp_path, there):
    (tmp_path / "elsewhere").mkdir()
    target, link = tmp_path / "elsewhere/file", tmp_path / "link"
    if there:
        target.write_bytes(b"old")
    link.symlink_to("elsewhere/file")
    write_whole(link, b"new")
    assert link.is_symlink() and target.read_bytes() == b"new"
    assert sorted(os.listdir(tmp_path)) == ["elsewhere", "link"] and os.listdir(target.parent) == ["file"]


def test_a_link_to_itself_is_an_error_and_stays(tmp_path):
    (tmp_path / "a").symlink_to("a")
    with pytest.raises(OSError, match="Too many levels of symbolic links"):
        write_whole(tmp_path / "a", b"new")
    assert (tmp_path / "a").is_symlink()


def test_after_an_error_the_old_file_is_there_and_no_part(tmp_path):
    (tmp_path / "a").write_bytes(b"old")
    with pytest.raises(ZeroDivisionError), whole_file(tmp_path / "a") as part:
        part.write_bytes(b"half")
        1 / 0
    assert os.listdir(tmp_path) == ["a"] and (tmp_path / "a").read_bytes() == b"old"


def test_the_old_file_is_whole_until_the_new_one_is(tmp_path):
    (tmp_path / "a").write_bytes(b"old")
    with whole_file(tmp_path / "a") as part:
        part.write_bytes(b"new")
        assert (tmp_path / "a").read_bytes() == b"old"
    assert (tmp_path / "a").read_bytes() == b"new"


def test_two_writers_of_one_file_do_not_mix(tmp_path):
    with whole_file(tmp_path / "a") as first, whole_file(tmp_path / "a") as second:
        first.write_bytes(b"first")
        second.write_bytes(b"second")
    assert (tmp_path / "a").read_bytes() == b"first"  # the outer block ends last


def test_errors_name_the_path_that_was_asked_for(tmp_path):
    (tmp_path / "file").write_bytes(b"old")
    for path, error in (("folder/a", FileNotFoundError), ("file/a", NotADirectoryError), ("", IsADirectoryError)):
        with pytest.raises(error) as caught:
            write_whole(tmp_path / path, b"new")
        assert caught.value.filename == str(tmp_path / path) and caught.value.errno and caught.value.strerror
        what, rows, rule, fix = parts_of(caught.value)
        assert rows[0] == ("path", str(tmp_path / path)) and str(caught.value) == message(what, rows, rule, fix)
    assert os.listdir(tmp_path) == ["file"]


def test_a_name_as_long_as_a_name_may_be_can_be_written(tmp_path):
    name = "é" * 127
    write_whole(tmp_path / name, b"new")
    assert os.listdir(tmp_path) == [name]


def test_a_device_is_written_to_and_not_replaced():
    before = os.stat(os.devnull)
    write_whole(os.devnull, b"new")
    assert os.path.samestat(before, os.stat(os.devnull))


def test_parts_that_a_kill_has_left_are_removed(tmp_path):
    for name in (".a.7.0.part", ".b.7.0.part", "a", "a.part"):
        (tmp_path / name).write_bytes(b"")
    remove_parts(tmp_path / "a")
    assert sorted(os.listdir(tmp_path)) == [".b.7.0.part", "a", "a.part"]
