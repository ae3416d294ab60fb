/* The change feed does what cleavedb/c.h says. */
#include <cleavedb/c.h>

#include "check.h"

static char* err = NULL;
static leveldb_writeoptions_t* writing;
static leveldb_t* db;

static void put(const char* key, const char* value) {
  leveldb_put(db, writing, key, strlen(key), value, strlen(value), &err);
  CHECK_OK(err);
}

/* Expects a change; a deletion if `value` is NULL. */
static void has(cleavedb_changes_t* changes, size_t index, uint64_t seqno, const char* keyspace,
                const char* key, const char* value, uint64_t deadline) {
  size_t len = 9;
  uint64_t found = 9;
  CHECK(cleavedb_change_seqno(changes, index) == seqno);
  const char* text = cleavedb_change_keyspace(changes, index, &len);
  CHECK((text == NULL) == (keyspace == NULL));
  if (text != NULL) CHECK(len == strlen(keyspace) && memcmp(text, keyspace, len) == 0);
  CHECK(cleavedb_change_keyspace_id(changes, index) > 0);
  text = cleavedb_change_key(changes, index, &len);
  CHECK(len == strlen(key) && memcmp(text, key, len) == 0);
  text = cleavedb_change_value(changes, index, &len, &found);
  int kind = cleavedb_change_kind(changes, index);
  CHECK(found == deadline);
  if (value == NULL) {
    CHECK(kind == cleavedb_change_deleted && text == NULL && len == 0);
  } else {
    CHECK(kind == cleavedb_change_put && len == strlen(value) && memcmp(text, value, len) == 0);
  }
}

static void nothing(cleavedb_changes_t* changes, size_t index) {
  size_t len = 9;
  uint64_t deadline = 9;
  CHECK(cleavedb_change_seqno(changes, index) == 0 && cleavedb_change_kind(changes, index) == 0);
  CHECK(cleavedb_change_keyspace(changes, index, &len) == NULL && len == 0);
  CHECK(cleavedb_change_keyspace_id(changes, index) == 0);
  len = 9;
  CHECK(cleavedb_change_key(changes, index, &len) == NULL && len == 0);
  len = 9;
  CHECK(cleavedb_change_value(changes, index, &len, &deadline) == NULL && len == 0);
  CHECK(deadline == CLEAVEDB_NEVER);
}

int main(int argc, char** argv) {
  CHECK(argc == 2);
  leveldb_options_t* options = leveldb_options_create();
  leveldb_options_set_create_if_missing(options, 1);
  writing = leveldb_writeoptions_create();
  db = leveldb_open(options, below(argv, "db"), &err);
  CHECK_OK(err);
  cleavedb_keyspace_t* side = cleavedb_keyspace_open(db, NULL, "side", &err);
  CHECK_OK(err);

  cleavedb_changes_t* changes = cleavedb_changes_create(db, 0, cleavedb_changes_pin, &err);
  CHECK_OK(err);
  nothing(changes, 0);
  CHECK(cleavedb_changes_next(changes, 0, &err) == 0);
  CHECK(cleavedb_changes_next(changes, 1, &err) == 0);
  CHECK_OK(err);
  put("a", "1");
  leveldb_writebatch_t* batch = leveldb_writebatch_create();
  leveldb_writebatch_delete(batch, "a", 1);
  cleavedb_writebatch_put(batch, side, "b", 1, "", 0);
  leveldb_write(db, writing, batch, &err);
  cleavedb_put_expiring_at(side, writing, "c", 1, "3", 1, UINT64_C(1) << 43, &err);
  CHECK_OK(err);
  CHECK(cleavedb_changes_next(changes, 1000, &err) == 1);
  has(changes, 0, 1, "default", "a", "1", CLEAVEDB_NEVER);
  nothing(changes, 1);
  CHECK(cleavedb_changes_position(changes) == 1);
  CHECK(cleavedb_changes_next(changes, 0, &err) == 2);
  has(changes, 0, 2, "default", "a", NULL, CLEAVEDB_NEVER);
  has(changes, 1, 3, "side", "b", "", CLEAVEDB_NEVER);
  CHECK(cleavedb_changes_next(changes, 0, &err) == 1);
  has(changes, 0, 4, "side", "c", "3", UINT64_C(1) << 43);
  CHECK(cleavedb_changes_next(changes, 0, &err) == 0);
  nothing(changes, 0);
  CHECK_OK(err);

  /* What was dropped has no name. */
  cleavedb_keyspace_drop(db, "side", &err);
  CHECK_OK(err);
  cleavedb_changes_t* again = cleavedb_changes_create(db, 1, cleavedb_changes_visible, &err);
  CHECK(cleavedb_changes_next(again, 0, &err) == 2);
  has(again, 1, 3, NULL, "b", "", CLEAVEDB_NEVER);
  put("d", "4");
  put("e", "5");
  cleavedb_changes_skip_to(again, 5, &err);
  CHECK_OK(err);
  nothing(again, 0);
  CHECK(cleavedb_changes_next(again, 0, &err) == 1);
  has(again, 0, 6, "default", "e", "5", CLEAVEDB_NEVER);

  /* A range: its ends. */
  cleavedb_changes_skip_to(again, 6, &err);
  cleavedb_keyspace_t* keys = cleavedb_keyspace_open(db, NULL, "default", &err);
  cleavedb_delete_range(keys, writing, "d", 1, NULL, 0, &err);
  cleavedb_keyspace_close(keys);
  CHECK_OK(err);
  CHECK(cleavedb_changes_next(again, 0, &err) == 1);
  CHECK(cleavedb_change_kind(again, 0) == cleavedb_change_deleted_range);
  size_t len = 9;
  uint8_t included = 9;
  const char* end = cleavedb_change_range_end(again, 0, 0, &len, &included);
  CHECK(len == 1 && *end == 'd' && included == 1);
  CHECK(cleavedb_change_range_end(again, 0, 1, &len, &included) == NULL);
  CHECK(len == 0 && included == 0);

  /* Misuse. */
  CHECK(cleavedb_changes_create(db, 0, 4, &err) == NULL);
  CHECK_ERROR(err, "Invalid argument: there are no flags 4 for changes");
  CHECK(cleavedb_changes_create(db, 8, 0, &err) == NULL);
  CHECK_ERROR(err, "Gone: number 8 is ahead of the database");
  cleavedb_changes_skip_to(again, 99, &err);
  CHECK_ERROR(err, "Gone: ");
  CHECK(cleavedb_changes_next(NULL, 0, &err) == 0);
  CHECK_ERROR(err, "Invalid argument: ");
  CHECK(cleavedb_changes_position(NULL) == 0);
  nothing(NULL, 0);
  cleavedb_changes_destroy(NULL);
  cleavedb_changes_destroy(again);
  CHECK(cleavedb_changes_next(again, 0, &err) == 0);
  CHECK_ERROR(err, "Invalid argument: ");

  leveldb_writebatch_destroy(batch);
  cleavedb_keyspace_close(side);
  leveldb_close(db);
  CHECK(cleavedb_changes_next(changes, 0, &err) == 0);
  CHECK_ERROR(err, "IO error: the database was closed");
  cleavedb_changes_destroy(changes);
  leveldb_writeoptions_destroy(writing);
  leveldb_options_destroy(options);
  CHECK(cleavedb_open_handles() == 0);
  puts("ok");
  return 0;
}
