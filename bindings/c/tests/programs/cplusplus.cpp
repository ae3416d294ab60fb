// Both headers are C++ too.
#include <cleavedb/c.h>
#include <leveldb/c.h>

#include <cstdio>
#include <memory>
#include <string>

int main(int argc, char** argv) {
  if (argc < 2) return 2;
  std::unique_ptr<leveldb_options_t, decltype(&leveldb_options_destroy)> options(
      leveldb_options_create(), &leveldb_options_destroy);
  leveldb_options_set_create_if_missing(options.get(), true);
  char* err = nullptr;
  const std::string path = std::string(argv[1]) + "/db", key = "key", value(5000, 'x');
  leveldb_t* db = leveldb_open(options.get(), path.c_str(), &err);
  leveldb_writeoptions_t* writing = leveldb_writeoptions_create();
  leveldb_readoptions_t* reading = leveldb_readoptions_create();
  leveldb_put(db, writing, key.data(), key.size(), value.data(), value.size(), &err);
  size_t len = 0;
  char* found = leveldb_get(db, reading, key.data(), key.size(), &len, &err);
  const bool same = found != nullptr && std::string(found, len) == value;
  leveldb_free(found);
  leveldb_close(db);
  leveldb_writeoptions_destroy(writing);
  leveldb_readoptions_destroy(reading);
  options.reset();
  if (!same || err != nullptr || cleavedb_open_handles() != 0) return 1;
  std::puts("ok");
  return 0;
}
