/* Sorted files are written and ingested as cleavedb/c.h says. */
#include <cleavedb/c.h>
#include <stdio.h>
#include <string.h>

#include "check.h"

static char* err = NULL;
static leveldb_readoptions_t* reading;
static leveldb_writeoptions_t* writing;
static cleavedb_keyspace_t* words;

static void holds(const char* key, const char* expected) {
  size_t len = 0;
  char* value = cleavedb_get(words, reading, key, strlen(key), &len, &err);
  CHECK_OK(err);
  if (expected == NULL) {
    CHECK(value == NULL);
    return;
  }
  CHECK(value != NULL && len == strlen(expected) && memcmp(value, expected, len) == 0);
  leveldb_free(value);
}

int main(int argc, char** argv) {
  (void)argc;
  leveldb_options_t* options = leveldb_options_create();
  leveldb_options_set_create_if_missing(options, 1);
  reading = leveldb_readoptions_create();
  writing = leveldb_writeoptions_create();
  leveldb_t* db = leveldb_open(options, below(argv, "db"), &err);
  CHECK_OK(err);
  words = cleavedb_keyspace_open(db, options, "words", &err);
  CHECK_OK(err);
  cleavedb_put(words, writing, "b", 1, "old", 3, &err);
  cleavedb_put(words, writing, "c", 1, "old", 3, &err);
  CHECK_OK(err);
  char path[4096];
  snprintf(path, sizeof path, "%s", below(argv, "sorted"));
  cleavedb_sortedfile_t* file = cleavedb_sortedfile_create(path, &err);
  CHECK_OK(err);
  cleavedb_sortedfile_put(file, "a", 1, "new", 3, &err);
  cleavedb_sortedfile_put(file, "b", 1, "new", 3, &err);
  cleavedb_sortedfile_delete(file, "c", 1, &err);
  CHECK_OK(err);
  cleavedb_sortedfile_put(file, "a", 1, "again", 5, &err);
  CHECK_ERROR(err, "Invalid argument: ");
  cleavedb_sortedfile_finish(file, &err);
  CHECK_OK(err);
  cleavedb_sortedfile_finish(file, &err);
  CHECK_ERROR(err, "Invalid argument: ");
  cleavedb_sortedfile_put(file, "z", 1, "late", 4, &err);
  CHECK_ERROR(err, "Invalid argument: ");
  cleavedb_sortedfile_destroy(file);
  const char* paths[] = {path};
  CHECK(cleavedb_ingest(words, paths, 1, cleavedb_ingest_below, &err) == 1);
  CHECK_OK(err);
  holds("a", "new");
  holds("b", "old");
  holds("c", "old");
  CHECK(cleavedb_ingest(words, paths, 1, 0, &err) == 3);
  CHECK_OK(err);
  holds("b", "new");
  holds("c", NULL);
  cleavedb_changes_t* changes = cleavedb_changes_create(db, 3, 0, &err);
  CHECK_OK(err);
  CHECK(cleavedb_changes_next(changes, 0, &err) == 1);
  CHECK(cleavedb_change_kind(changes, 0) == cleavedb_change_ingested);
  size_t len = 0;
  uint8_t included = 0;
  CHECK(*cleavedb_change_range_end(changes, 0, 0, &len, &included) == 'a' && included == 1);
  CHECK(*cleavedb_change_range_end(changes, 0, 1, &len, &included) == 'c' && included == 1);
  cleavedb_changes_destroy(changes);
  CHECK(cleavedb_ingest(words, paths, 1, 8, &err) == 0);
  CHECK_ERROR(err, "Invalid argument: ");
  CHECK(cleavedb_ingest(NULL, paths, 1, 0, &err) == 0);
  CHECK_ERROR(err, "Invalid argument: ");
  cleavedb_sortedfile_create(path, &err);
  CHECK_ERROR(err, "");
  cleavedb_keyspace_close(words);
  leveldb_close(db);
  leveldb_options_destroy(options);
  leveldb_readoptions_destroy(reading);
  leveldb_writeoptions_destroy(writing);
  puts("ok");
  return 0;
}
