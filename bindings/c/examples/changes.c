/* What was committed, as it is committed, and in the next session what came since.
 * Usage: changes DIRECTORY */
#include <cleavedb/c.h>
#include <stdio.h>
#include <stdlib.h>

/* Ends the program if a call has failed. */
static void expect_success(const char* err) {
  if (err == NULL) return;
  fprintf(stderr, "%s\n", err);
  exit(1);
}

static void print_change(cleavedb_changes_t* changes, size_t index) {
  size_t name_len, key_len, value_len;
  const char* name = cleavedb_change_keyspace(changes, index, &name_len);
  const char* key = cleavedb_change_key(changes, index, &key_len);
  const char* value = cleavedb_change_value(changes, index, &value_len, NULL);
  int is_put = cleavedb_change_kind(changes, index) == cleavedb_change_put;
  printf("%llu %s %.*s/%.*s", (unsigned long long)cleavedb_change_seqno(changes, index),
         is_put ? "put" : "deleted", (int)name_len, name ? name : "", (int)key_len, key);
  if (is_put) printf(" = %.*s", (int)value_len, value);
  printf("\n");
}

/* Prints what is committed behind a number until nothing new comes for a while; returns the number
 * to go on from. */
static uint64_t follow(leveldb_t* db, uint64_t since) {
  char* err = NULL;
  cleavedb_changes_t* changes = cleavedb_changes_create(db, since, cleavedb_changes_pin, &err);
  /* A message that begins with "Gone: " means: copy all at a snapshot, and go on from there. */
  expect_success(err);
  size_t count;
  while ((count = cleavedb_changes_next(changes, 50, &err)) > 0) {
    for (size_t index = 0; index < count; index++) print_change(changes, index);
  }
  expect_success(err);
  since = cleavedb_changes_position(changes);
  cleavedb_changes_destroy(changes);
  return since;
}

int main(int argc, char** argv) {
  if (argc < 2) return 2;
  char path[4096];
  snprintf(path, sizeof path, "%s/changes", argv[1]);
  char* err = NULL;
  leveldb_options_t* options = leveldb_options_create();
  leveldb_options_set_create_if_missing(options, 1);
  leveldb_writeoptions_t* writing = leveldb_writeoptions_create();
  leveldb_t* db = leveldb_open(options, path, &err);
  expect_success(err);

  leveldb_put(db, writing, "ada", 3, "Lovelace", 8, &err);
  leveldb_put(db, writing, "grace", 5, "Hopper", 6, &err);
  expect_success(err);
  uint64_t seen = follow(db, 0);
  leveldb_writebatch_t* batch = leveldb_writebatch_create();
  leveldb_writebatch_put(batch, "grace", 5, "Murray Hopper", 13);
  leveldb_writebatch_delete(batch, "ada", 3);
  leveldb_write(db, writing, batch, &err);
  expect_success(err);
  leveldb_writebatch_destroy(batch);
  seen = follow(db, seen);
  printf("the next session goes on behind %llu\n", (unsigned long long)seen);

  leveldb_put(db, writing, "alan", 4, "Turing", 6, &err);
  expect_success(err);
  leveldb_close(db);
  db = leveldb_open(options, path, &err);
  expect_success(err);
  follow(db, seen);

  leveldb_writeoptions_destroy(writing);
  leveldb_close(db);
  leveldb_options_destroy(options);
  return 0;
}
