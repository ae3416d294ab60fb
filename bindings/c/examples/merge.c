/* Merge operators: a counter, a bounded list, and an operator of one's own.
 * Usage: merge DIRECTORY */
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

/* Keeps the longest text. */
static uint8_t longest(void* state, const char* key, size_t keylen, const char* base,
                       size_t baselen, const char* const* operands, const size_t* operand_lens,
                       size_t num_operands, char** result, size_t* resultlen) {
  (void)state, (void)key, (void)keylen;
  const char* found = base;
  size_t len = baselen;
  for (size_t i = 0; i < num_operands; i++) {
    if (found == NULL || operand_lens[i] > len) {
      found = operands[i];
      len = operand_lens[i];
    }
  }
  *result = malloc(len + 1);
  if (*result == NULL) return 0;
  memcpy(*result, found, len);
  *resultlen = len;
  return 1;
}

static const char* name(void* state) {
  (void)state;
  return "example.Longest";
}

static cleavedb_keyspace_t* create(leveldb_t* db, const char* keyspace, const char* operator) {
  char* err = NULL;
  leveldb_options_t* options = leveldb_options_create();
  cleavedb_options_set_merge_operator(options, operator);
  cleavedb_keyspace_t* created = cleavedb_keyspace_open(db, options, keyspace, &err);
  expect_success(err);
  leveldb_options_destroy(options);
  return created;
}

static void merge(cleavedb_keyspace_t* keyspace, const char* key, const char* operand) {
  char* err = NULL;
  leveldb_writeoptions_t* writing = leveldb_writeoptions_create();
  cleavedb_merge(keyspace, writing, key, strlen(key), operand, strlen(operand), &err);
  expect_success(err);
  leveldb_writeoptions_destroy(writing);
}

static void show(const char* what, cleavedb_keyspace_t* keyspace, const char* key) {
  char* err = NULL;
  size_t len = 0;
  leveldb_readoptions_t* reading = leveldb_readoptions_create();
  char* value = cleavedb_get(keyspace, reading, key, strlen(key), &len, &err);
  expect_success(err);
  printf("%s: %.*s\n", what, (int)len, value == NULL ? "" : value);
  leveldb_free(value);
  leveldb_readoptions_destroy(reading);
}

int main(int argc, char** argv) {
  if (argc < 2) return 2;
  char path[4096];
  snprintf(path, sizeof path, "%s/merge", argv[1]);
  char* err = NULL;
  leveldb_options_t* options = leveldb_options_create();
  leveldb_options_set_create_if_missing(options, 1);
  cleavedb_options_add_merge_operator(options, NULL, NULL, longest, NULL, name);
  leveldb_t* db = leveldb_open(options, path, &err);
  expect_success(err);

  cleavedb_keyspace_t* counters = create(db, "counters", "cleavedb.Add");
  merge(counters, "visits", "1");
  merge(counters, "visits", "2");
  show("visits", counters, "visits");

  /* The list keeps its last 15 bytes. */
  cleavedb_keyspace_t* lists = create(db, "lists", "cleavedb.Append:15");
  merge(lists, "words", "one … one …");
  merge(lists, "words", ", two");
  merge(lists, "words", ", three");
  show("last words", lists, "words");

  cleavedb_keyspace_t* words = create(db, "words", "example.Longest");
  merge(words, "insects", "ant");
  merge(words, "insects", "grasshopper");
  merge(words, "insects", "moth");
  show("longest", words, "insects");

  cleavedb_keyspace_close(counters);
  cleavedb_keyspace_close(lists);
  cleavedb_keyspace_close(words);
  leveldb_close(db);
  leveldb_options_destroy(options);
  return 0;
}
