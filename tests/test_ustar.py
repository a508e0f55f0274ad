"""Canonical archives: what is packed comes back, one form for one set of files, and every other form is refused."""

import io
import tarfile
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.ustar import BLOCK, RECORD, ArchiveError, Caps, check_name, check_names, pack, read_archive, unpack

FILES = {"bundle/bagit.txt": b"BagIt", "bundle/data/a.json": b"{}" * 300, "bundle/data/empty": b""}
ARCHIVE = pack(FILES)

parts = st.from_regex(r"\.?[a-z0-9_][a-z0-9_+-]{0,8}(\.[a-z]{1,4})?", fullmatch=True).filter(
    lambda part: part.split(".")[0] not in ("con", "prn", "aux", "nul")
)
names = st.lists(parts, min_size=1, max_size=4).map("/".join)


@st.composite
def file_sets(draw: st.DrawFn) -> dict[str, bytes]:
    """Files of which none is also a folder."""
    chosen = sorted(draw(st.sets(names, min_size=1, max_size=6)))
    free = [name for name in chosen if not any(other.startswith(f"{name}/") for other in chosen)]
    return {name: draw(st.binary(max_size=1100)) for name in free}


# Laws


@given(file_sets())
def test_what_is_packed_comes_back(files: dict[str, bytes]) -> None:
    archive = pack(files)
    assert unpack(archive) == files
    assert len(archive) % RECORD == 0
    assert archive.endswith(bytes(2 * BLOCK))


@given(file_sets(), st.randoms(use_true_random=False))
def test_the_order_in_which_files_are_given_changes_nothing(files: dict[str, bytes], random: object) -> None:
    shuffled = list(files.items())
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    assert pack(dict(shuffled)) == pack(files)


@given(file_sets())
def test_the_tar_library_reads_plain_files_without_owner_or_time(files: dict[str, bytes]) -> None:
    with tarfile.open(fileobj=io.BytesIO(pack(files))) as archive:
        members = archive.getmembers()
        assert [member.name for member in members] == sorted(files)
        assert {(m.type, m.mode, m.uid, m.gid, m.uname, m.gname, m.mtime) for m in members} == {
            (tarfile.REGTYPE, 0o644, 0, 0, "", "", 0)
        }
        assert {m.name: archive.extractfile(m).read() for m in members} == files  # type: ignore[union-attr]


@given(st.integers(0, len(ARCHIVE) - 1), st.integers(1, 255))
def test_a_changed_byte_is_refused_or_is_in_a_files_content(at: int, by: int) -> None:
    changed = bytearray(ARCHIVE)
    changed[at] ^= by
    try:
        files = unpack(bytes(changed))
    except ArchiveError:
        return
    assert files.keys() == FILES.keys()
    assert files != FILES
    assert pack(files) == bytes(changed)


@given(st.integers(0, len(ARCHIVE) - 1))
def test_a_cut_archive_is_refused(length: int) -> None:
    with pytest.raises(ArchiveError):
        unpack(ARCHIVE[:length])


@given(st.binary(min_size=1, max_size=600))
def test_anything_behind_the_end_is_refused(more: bytes) -> None:
    with pytest.raises(ArchiveError, match="expected nothing after byte"):
        unpack(ARCHIVE + more)


@given(st.binary(max_size=2000))
def test_any_bytes_are_an_archive_or_refused(data: bytes) -> None:
    try:
        assert pack(unpack(data)) == data
    except ArchiveError as refusal:
        assert len(str(refusal).splitlines()) == 1  # noqa: PT017, the other outcome is as good


def test_the_form_is_this_one() -> None:
    header = ARCHIVE[:BLOCK]
    assert header[:100] == b"bundle/bagit.txt".ljust(100, b"\0")
    assert header[100:148] == b"0000644\x000000000\x000000000\x0000000000005\x0000000000000\x00"
    assert header[156:157] + header[257:265] == b"0ustar\x0000"
    assert not header[157:257].strip(b"\0")
    assert not header[265:].strip(b"\0")


def test_a_long_name_is_split_at_a_slash() -> None:
    name = f"bundle/{'d' * 90}/{'f' * 60}"
    assert unpack(pack({name: b"x"})) == {name: b"x"}
    with pytest.raises(ArchiveError, match="does not fit a USTAR header"):
        pack({f"bundle/{'f' * 101}": b"x"})


# Refusals, each for its own reason


def by_tarfile(member: tarfile.TarInfo, data: bytes = b"", form: int = tarfile.USTAR_FORMAT) -> bytes:
    """Return an archive of one member as the tar library writes it."""
    stream = io.BytesIO()
    member.size = len(data)
    with tarfile.open(fileobj=stream, mode="w", format=form) as archive:
        archive.addfile(member, io.BytesIO(data))
    return stream.getvalue()


def plain(name: str = "bundle/a") -> tarfile.TarInfo:
    member = tarfile.TarInfo(name)
    member.mode = 0o644
    return member


def of_kind(kind: bytes, link: str = "") -> bytes:
    member = plain()
    member.type, member.linkname = kind, link
    return by_tarfile(member)


@pytest.mark.parametrize(
    ("archive", "found"),
    [
        (of_kind(tarfile.SYMTYPE, "/etc/passwd"), "a symbolic link"),
        (of_kind(tarfile.LNKTYPE, "bundle/b"), "a hard link"),
        (of_kind(tarfile.FIFOTYPE), "a FIFO"),
        (of_kind(tarfile.CHRTYPE), "a character device"),
        (of_kind(tarfile.BLKTYPE), "a block device"),
        (of_kind(tarfile.DIRTYPE), "a folder"),
        (of_kind(tarfile.CONTTYPE), "a contiguous file"),
        (of_kind(tarfile.GNUTYPE_SPARSE), "a sparse file"),
        (by_tarfile(plain("bundle/" + "n" * 200), form=tarfile.PAX_FORMAT), "a PAX header"),
        (by_tarfile(plain("bundle/" + "n" * 200), form=tarfile.GNU_FORMAT), "a GNU long name"),
    ],
)
def test_only_regular_files_are_read(archive: bytes, found: str) -> None:
    with pytest.raises(ArchiveError, match=f"expected a regular file, found {found}"):
        unpack(archive)


def test_a_global_pax_header_is_refused() -> None:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w", format=tarfile.PAX_FORMAT, pax_headers={"path": "/etc/x"}) as archive:
        archive.addfile(plain(), io.BytesIO(b""))
    with pytest.raises(ArchiveError, match="found a PAX global header"):
        unpack(stream.getvalue())


def resealed(header: bytearray) -> bytes:
    """Return a header with the checksum that its bytes call for."""
    header[148:156] = b" " * 8
    header[148:156] = b"%06o\0 " % sum(header)
    return bytes(header)


def with_header(change: Callable[[bytearray], object]) -> bytes:
    header = bytearray(ARCHIVE[:BLOCK])
    change(header)
    return resealed(header) + ARCHIVE[BLOCK:]


def put(at: int, text: bytes) -> Callable[[bytearray], object]:
    def change(header: bytearray) -> None:
        header[at : at + len(text)] = text

    return change


@pytest.mark.parametrize(
    "change",
    [
        put(100, b"0000755\0"),
        put(108, b"0001750\0"),
        put(116, b"0001750\0"),
        put(136, b"14714714714\0"),
        put(157, b"somewhere"),
        put(156, b"\0"),
        put(156, b"D"),
        put(257, b"ustar  \0"),
        put(265, b"owner"),
        put(297, b"group"),
        put(329, b"0000001\0"),
        put(500, b"hidden"),
        put(20, b"hidden behind the name"),
    ],
)
def test_a_header_that_says_anything_else_is_refused(change: Callable[[bytearray], object]) -> None:
    with pytest.raises(ArchiveError, match=r"member 'bundle/bagit.txt': its header is not canonical"):
        unpack(with_header(change))


def test_a_wrong_checksum_is_refused() -> None:
    changed = bytearray(ARCHIVE)
    changed[150] = ord("7") if changed[150] != ord("7") else ord("6")
    with pytest.raises(ArchiveError, match="its header is not canonical"):
        unpack(bytes(changed))


@pytest.mark.parametrize(
    "size",
    [
        b"\xff" * 11 + b"\xfb",  # -5 in base 256
        b"\x80" + b"\x00" * 7 + b"\x7f\xff\xff\xff",  # 2 GiB in base 256
        b"         5 \0",
        b"5\0\0\0\0\0\0\0\0\0\0\0",
        b"-0000000005\0",
        b"00000000009\0",
    ],
)
def test_a_size_in_any_other_form_is_refused(size: bytes) -> None:
    with pytest.raises(ArchiveError, match="expected a size of 11 octal digits"):
        unpack(with_header(put(124, size)))


def test_a_huge_size_is_refused_before_anything_is_read() -> None:
    with pytest.raises(ArchiveError, match="8589934591 bytes, where at most 67108864 are read"):
        unpack(with_header(put(124, b"77777777777\0")))


def test_a_size_beyond_the_end_is_refused() -> None:
    with pytest.raises(ArchiveError, match=r"member 'bundle/bagit\.txt': expected 1048576 bytes, found .* is cut off"):
        unpack(with_header(put(124, b"00004000000\0")))


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("../x", "'.' or '..'"),
        ("bundle/../../x", "'.' or '..'"),
        ("./x", "'.' or '..'"),
        ("/etc/passwd", "an empty part, as in an absolute path"),
        ("bundle//x", "an empty part"),
        ("bundle/", "an empty part"),
        ("", "an empty part"),
        ("~/.ssh/config", "a part that begins with '~'"),
        ("~root/x", "a part that begins with '~'"),
        ("C:/x", "a ':', as in a drive letter"),
        ("c:x", "a ':', as in a drive letter"),
        ("bundle/x:stream", "a ':'"),
        ("//host/share/x", "an empty part, as in an absolute path"),
        ("\\\\host\\share\\x", "a backslash"),
        ("bundle\\x", "a backslash"),
        ("bundle/CON", "a name that Windows gives to a device"),
        ("bundle/nul.txt", "a name that Windows gives to a device"),
        ("bundle/Lpt1.tar.gz", "a name that Windows gives to a device"),
        ("bundle/x.", "a part that ends with a dot or a space"),
        ("bundle/x ", "a part that ends with a dot or a space"),
        ("bundle/a b", "something beside ASCII letters"),
        ("bundle/-rf", "something beside ASCII letters"),
        ("bundle/$(x)", "something beside ASCII letters"),
        ("bundle/x\n", "a control character"),
        ("bundle/x\0y", "a control character"),
        ("bundle/\x1b[31m", "a control character"),
        ("bundle/\u202etxt.exe", "a character beyond ASCII"),
        ("bundle/n\u00e4me", "a character beyond ASCII"),
        ("bundle/na\u0308me", "a character beyond ASCII"),
    ],
)
def test_a_name_that_is_not_plain_everywhere_is_refused(name: str, found: str) -> None:
    with pytest.raises(ArchiveError) as refusal:
        check_name(name)
    said = str(refusal.value)
    assert f"expected a plain relative path, found {found}" in said
    assert said.isprintable()
    with pytest.raises(ArchiveError):
        pack({name: b""})


@pytest.mark.parametrize("name", ["bundle/../x", "/etc/passwd", "bundle/CON", "bundle/x.", "~x"])
def test_a_name_in_a_header_is_refused_as_when_packing(name: str) -> None:
    with pytest.raises(ArchiveError, match="expected a plain relative path"):
        unpack(by_tarfile(plain(name)))


@pytest.mark.parametrize(
    ("given_names", "told"),
    [
        (["b/x", "b/x"], "member 'b/x': stands more than once"),
        (["b/X", "b/x"], "member 'b/x': differs from 'b/X' by case alone"),
        (["B/x", "b/y"], "member 'b/y': differs from 'B' by case alone"),
        (["b/x", "b/x/y"], "member 'b/x/y': 'b/x' is both a file and a folder"),
        (["b/y", "b/x"], "expected in sorted order"),
    ],
)
def test_names_that_meet_on_some_system_are_refused(given_names: list[str], told: str) -> None:
    with pytest.raises(ArchiveError, match=told):
        check_names(given_names)
    with pytest.raises(ArchiveError, match=told):
        unpack(b"".join(pack({name: b""})[:BLOCK] for name in given_names) + bytes(RECORD - BLOCK * len(given_names)))


def test_data_in_the_padding_is_refused() -> None:
    changed = bytearray(ARCHIVE)
    changed[BLOCK + 100] = 1
    with pytest.raises(ArchiveError, match=r"member 'bundle/bagit\.txt': expected zeros in the padding"):
        unpack(bytes(changed))


@pytest.mark.parametrize(
    ("archive", "told"),
    [
        (ARCHIVE + ARCHIVE, "expected nothing after byte 10240"),
        (ARCHIVE + bytes(RECORD), "expected nothing after byte 10240"),
        (ARCHIVE[:-1] + b"x", "expected nothing after byte 10240"),
        (ARCHIVE[:-BLOCK], "it is cut off"),
        (ARCHIVE.rstrip(b"\0") + bytes(-len(ARCHIVE.rstrip(b"\0")) % BLOCK), "header, or end mark: expected 512 bytes"),
        (bytes(RECORD), "it holds no file"),
        (b"", "expected 512 bytes, found 0"),
    ],
)
def test_the_end_is_where_it_must_be(archive: bytes, told: str) -> None:
    with pytest.raises(ArchiveError, match=told):
        unpack(archive)


@pytest.mark.parametrize(
    ("caps", "told"),
    [
        (Caps(members=2), "more than 2 members"),
        (Caps(member_bytes=599), "600 bytes, where at most 599 are read"),
        (Caps(total_bytes=2000), "more than 2000 bytes"),
        (Caps(depth=2), "3 levels deep, where at most 2 are read"),
    ],
)
def test_nothing_is_read_beyond_the_caps(caps: Caps, told: str) -> None:
    with pytest.raises(ArchiveError, match=told):
        unpack(ARCHIVE, caps)
    assert unpack(ARCHIVE) == FILES


def test_an_endless_stream_is_left_at_the_first_thing_wrong() -> None:
    class Endless(io.RawIOBase):
        taken = 0

        def readable(self) -> bool:
            return True

        def read(self, size: int = -1) -> bytes:
            self.taken += size
            return b"\x01" * size

    stream = Endless()
    with pytest.raises(ArchiveError):
        read_archive(stream)  # type: ignore[arg-type]
    assert stream.taken == BLOCK
