"""Makes the stores of other programs beside this file anew; README.md says how."""

import pathlib
import shutil
import time

import plyvel
import rocksdict
from rocksdict import (
    BlockBasedIndexType, BlockBasedOptions, ChecksumType, DataBlockIndexType, DBCompressionType,
    Options, Rdict,
)

HERE = pathlib.Path(__file__).parent


def keep(name, endings):
    """Removes what is not part of the data: logs for people, options, and empty locks."""
    for file in (HERE / name).iterdir():
        kept = ("CURRENT", "MANIFEST-", "IDENTITY")
        if not file.name.startswith(kept) and not file.name.endswith(endings):
            file.unlink()


def key(number):
    return b"key%03d" % number


def leveldb():
    shutil.rmtree(HERE / "leveldb", ignore_errors=True)
    db = plyvel.DB(str(HERE / "leveldb"), create_if_missing=True, block_size=512)
    for number in range(100):
        db.put(key(number), b"old %d " % number * 4)
    db.compact_range()
    for number in range(0, 100, 7):
        db.put(key(number), b"newer")
    db.delete(key(3))
    db.compact_range(start=key(0), stop=key(20))
    with db.write_batch() as batch:
        batch.delete(key(50))
        batch.put(key(51), b"newest")
        batch.put(b"", b"of the empty key")
        batch.put(b"\x00\xff", b"")
    db.put(b"large", bytes(range(256)) * 200)
    db.close()
    keep("leveldb", (".ldb", ".log"))


def rocksdb(name, version, compression, checksum, is_two_level):
    shutil.rmtree(HERE / name, ignore_errors=True)
    tables = BlockBasedOptions()
    tables.set_format_version(version)
    tables.set_block_size(256)
    tables.set_checksum_type(checksum)
    tables.set_index_block_restart_interval(4)
    if is_two_level:
        tables.set_index_type(BlockBasedIndexType.two_level_index_search())
        tables.set_metadata_block_size(64)
    else:
        tables.set_data_block_index_type(DataBlockIndexType.binary_and_hash())
    options = Options(raw_mode=True)
    options.create_if_missing(True)
    options.set_compression_type(compression)
    options.set_block_based_table_factory(tables)
    db = Rdict(str(HERE / name), options)
    people = db.create_column_family("people", options)
    for number in range(60):
        db[key(number)] = b"old %d " % number * 4
    db.flush()
    db.delete_range(key(20), key(30))
    db[key(25)] = b"back again"
    del db[key(3)]
    people[b"ada"] = b"Ada Lovelace"
    db.flush()
    db[key(1)] = b"newest"
    db.delete_range(key(40), key(45))
    people[b"grace"] = b"Grace Hopper"
    db.flush_wal(True)
    # A copy of the open store: closing it would move what is in its log into tables.
    copy = HERE / (name + "-copy")
    shutil.copytree(HERE / name, copy)
    del people
    db.close()
    shutil.rmtree(HERE / name)
    copy.rename(HERE / name)
    keep(name, (".sst", ".log"))
    for file in (HERE / name).glob("*.log"):
        # RocksDB allocates ahead; what follows the last record is zeroes.
        file.write_bytes(file.read_bytes().rstrip(b"\0"))


def small_tables(is_dynamic):
    """Options for three levels of tables of about 1 KiB, which move only when they are told to."""
    tables = BlockBasedOptions()
    tables.set_block_size(256)
    options = Options(raw_mode=True)
    options.create_if_missing(True)
    options.set_compression_type(DBCompressionType.none())
    options.set_block_based_table_factory(tables)
    options.set_num_levels(3)
    options.set_level_compaction_dynamic_level_bytes(is_dynamic)
    options.set_target_file_size_base(1024)
    options.set_target_file_size_multiplier(1)
    options.set_level_zero_file_num_compaction_trigger(2)
    options.set_disable_auto_compactions(True)
    return options


def levels(db):
    return sorted(file["level"] for file in db.live_files())


def rocksdb_clipped():
    name = "rocksdb-clipped"
    shutil.rmtree(HERE / name, ignore_errors=True)
    # With dynamic levels the old values go to the deepest level at once, in several tables.
    db = Rdict(str(HERE / name), small_tables(True))
    for age in (b"oldest", b"old"):
        for number in range(20):
            db[key(number)] = b"%s %d " % (age, number) * 16
        db.flush()
    db.compact_range(None, None)
    assert levels(db) == [2, 2, 2], db.live_files()
    db.close()
    # The recorded options would win over those that are given.
    for file in (HERE / name).glob("OPTIONS-*"):
        file.unlink()
    db = Rdict(str(HERE / name), small_tables(False))
    db.delete_range(key(0), key(20))
    for part in (range(8), range(12, 20)):
        for number in part:
            db[key(number)] = b"new %d " % number * 40
        db.flush()
    # The deleted range is written to each of the tables that level 1 gets.
    db.set_options({"disable_auto_compactions": "false"})
    while 0 in levels(db):
        time.sleep(0.1)
    db.set_options({"disable_auto_compactions": "true"})
    assert levels(db) == [1, 1, 1, 2, 2, 2], db.live_files()
    # The last of them goes to the deepest level: it leaves the range behind, and its keys get the
    # sequence number 0.
    db.compact_range(key(19), key(19))
    assert levels(db) == [1, 1, 2, 2, 2], db.live_files()
    assert list(db.keys()) == [key(number) for number in (*range(8), *range(12, 20))]
    db.close()
    keep(name, (".sst", ".log"))


leveldb()
rocksdb("rocksdb-2", 2, DBCompressionType.snappy(), ChecksumType.crc32c(), False)
rocksdb("rocksdb-5", 5, DBCompressionType.lz4(), ChecksumType.xxhash64(), True)
rocksdb("rocksdb-6", 6, DBCompressionType.zstd(), ChecksumType.xxh3(), False)
rocksdb_clipped()
