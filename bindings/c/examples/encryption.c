/* A database that nobody can read without its key, and a change of the key.
 * Usage: encryption DIRECTORY */
#include <cleavedb/c.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Ends the program if a call has failed. */
static void expect_success(const char* err) {
  if (err == NULL) return;
  fprintf(stderr, "%s\n", err);
  exit(1);
}

/* Opens the database with these keys, the current one first, and prints a value. */
static void show(const char* what, const char* path, const char* keys[], size_t count) {
  char* err = NULL;
  leveldb_options_t* options = leveldb_options_create();
  for (size_t i = 0; i < count; i++) cleavedb_options_add_encryption_key(options, keys[i], 32);
  leveldb_t* db = leveldb_open(options, path, &err);
  if (db == NULL) {
    printf("%s: refused\n", what);
    leveldb_free(err);
    leveldb_options_destroy(options);
    return;
  }
  expect_success(err);
  leveldb_readoptions_t* reading = leveldb_readoptions_create();
  size_t len = 0;
  char* value = leveldb_get(db, reading, "name", 4, &len, &err);
  expect_success(err);
  if (what[0] != '\0') printf("%s: %.*s\n", what, (int)len, value);
  leveldb_free(value);
  leveldb_readoptions_destroy(reading);
  leveldb_close(db);
  leveldb_options_destroy(options);
}

int main(int argc, char** argv) {
  if (argc < 2) return 2;
  char path[4096];
  snprintf(path, sizeof path, "%s/secrets", argv[1]);
  /* Take random bytes: from getrandom, /dev/urandom, or a key service. */
  const char* first = "0123456789abcdef0123456789abcdef";
  const char* second = "fedcba9876543210fedcba9876543210";
  char* err = NULL;
  leveldb_options_t* options = leveldb_options_create();
  leveldb_options_set_create_if_missing(options, 1);
  cleavedb_options_add_encryption_key(options, first, 32);
  leveldb_t* db = leveldb_open(options, path, &err);
  expect_success(err);
  leveldb_writeoptions_t* writing = leveldb_writeoptions_create();
  const char* value = "unreadable on the disk";
  leveldb_put(db, writing, "name", 4, value, strlen(value), &err);
  expect_success(err);

  /* What is prepared outside of the database is encrypted with the same key. */
  char file[4096 + 16];
  snprintf(file, sizeof file, "%s.sorted", path);
  cleavedb_sortedfile_t* sorted =
      cleavedb_sortedfile_create_encrypted(file, first, 32, &err);
  expect_success(err);
  cleavedb_sortedfile_put(sorted, "other", 5, value, strlen(value), &err);
  expect_success(err);
  cleavedb_sortedfile_finish(sorted, &err);
  expect_success(err);
  cleavedb_sortedfile_destroy(sorted);
  cleavedb_keyspace_t* keyspace = cleavedb_keyspace_open(db, NULL, "default", &err);
  expect_success(err);
  const char* files[] = {file};
  uint64_t ingested = cleavedb_ingest(keyspace, files, 1, 0, &err);
  expect_success(err);
  printf("ingested: %d\n", (int)ingested);
  cleavedb_keyspace_close(keyspace);
  leveldb_close(db);

  show("without the key", path, NULL, 0);
  show("with it", path, &first, 1);

  /* The opening wraps the keys of the files with the new key, and then the former can go. */
  const char* both[] = {second, first};
  show("", path, both, 2);
  show("with the former key", path, &first, 1);
  show("with the new one", path, &second, 1);

  leveldb_writeoptions_destroy(writing);
  leveldb_options_destroy(options);
  return 0;
}
