/* Many more sessions than the process may have descriptors, each with one put. */
#include <cleavedb/c.h>
#include <dirent.h>
#include <sys/resource.h>

#include "check.h"

static int files_in(const char* path) {
  DIR* dir = opendir(path);
  CHECK(dir != NULL);
  int count = 0;
  for (struct dirent* entry = readdir(dir); entry != NULL; entry = readdir(dir)) {
    count += entry->d_name[0] != '.';
  }
  closedir(dir);
  return count;
}

int main(int argc, char** argv) {
  CHECK(argc == 3);
  const int count = atoi(argv[2]);
  const struct rlimit limit = {64, 64};
  CHECK(setrlimit(RLIMIT_NOFILE, &limit) == 0);
  char* err = NULL;
  leveldb_options_t* options = leveldb_options_create();
  leveldb_options_set_create_if_missing(options, 1);
  leveldb_readoptions_t* reading = leveldb_readoptions_create();
  leveldb_writeoptions_t* writing = leveldb_writeoptions_create();
  const char* path = below(argv, "db");
  char key[16];
  for (int number = 0; number < count; number++) {
    leveldb_t* db = leveldb_open(options, path, &err);
    CHECK_OK(err);
    snprintf(key, sizeof key, "%08d", number);
    leveldb_put(db, writing, key, 8, key, 8, &err);
    CHECK_OK(err);
    leveldb_close(db);
    /* CURRENT, MANIFEST, OPTIONS, LOCK, and no more than sixteen. */
    CHECK(files_in(path) <= 4 + 16);
  }
  leveldb_t* db = leveldb_open(options, path, &err);
  CHECK_OK(err);
  for (int number = 0; number < count; number++) {
    size_t length;
    snprintf(key, sizeof key, "%08d", number);
    char* value = leveldb_get(db, reading, key, 8, &length, &err);
    CHECK_OK(err);
    CHECK(value != NULL && length == 8 && memcmp(value, key, 8) == 0);
    leveldb_free(value);
  }
  leveldb_close(db);
  leveldb_repair_db(options, path, &err);
  CHECK_OK(err);
  leveldb_readoptions_destroy(reading);
  leveldb_writeoptions_destroy(writing);
  leveldb_options_destroy(options);
  printf("ok\n");
  return 0;
}
