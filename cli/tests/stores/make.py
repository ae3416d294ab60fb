"""Makes the stores of other programs beside this file anew; README.md says how."""

import pathlib
import shutil

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


leveldb()
rocksdb("rocksdb-2", 2, DBCompressionType.snappy(), ChecksumType.crc32c(), False)
rocksdb("rocksdb-5", 5, DBCompressionType.lz4(), ChecksumType.xxhash64(), True)
rocksdb("rocksdb-6", 6, DBCompressionType.zstd(), ChecksumType.xxh3(), False)
