/* Ranges are deleted as cleavedb/c.h says. */
#include <cleavedb/c.h>

#include "check.h"

static char* err = NULL;
static leveldb_readoptions_t* reading;
static leveldb_writeoptions_t* writing;
static leveldb_t* db;
static cleavedb_keyspace_t* words;

/* Puts the keys a to f. */
static void fill(void) {
  for (const char* key = "abcdef"; *key != 0; key++) {
    cleavedb_put(words, writing, key, 1, "value", 5, &err);
    CHECK_OK(err);
  }
}

/* Expects exactly these keys, of one byte each. */
static void holds(const char* expected) {
  leveldb_iterator_t* it = cleavedb_create_iterator(words, reading);
  leveldb_iter_seek_to_first(it);
  for (; *expected != 0; expected++) {
    size_t len = 0;
    CHECK(leveldb_iter_valid(it));
    CHECK(*leveldb_iter_key(it, &len) == *expected && len == 1);
    leveldb_iter_next(it);
  }
  CHECK(!leveldb_iter_valid(it));
  leveldb_iter_destroy(it);
}

static void deletes(const char* begin, const char* end, const char* left) {
  fill();
  size_t beginlen = begin == NULL ? 0 : strlen(begin);
  size_t endlen = end == NULL ? 0 : strlen(end);
  cleavedb_delete_range(words, writing, begin, beginlen, end, endlen, &err);
  CHECK_OK(err);
  holds(left);
  fill();
  leveldb_writebatch_t* batch = leveldb_writebatch_create();
  leveldb_writebatch_t* outer = leveldb_writebatch_create();
  cleavedb_writebatch_delete_range(batch, words, begin, beginlen, end, endlen);
  leveldb_writebatch_append(outer, batch);
  leveldb_writebatch_destroy(batch);
  leveldb_write(db, writing, outer, &err);
  leveldb_writebatch_destroy(outer);
  CHECK_OK(err);
  holds(left);
}

/* LevelDB's callbacks hear nothing of a range. */
static void is_put(void* state, const char* key, size_t klen, const char* val, size_t vallen) {
  (void)key, (void)klen, (void)val, (void)vallen;
  *(int*)state += 1;
}

static void is_deleted(void* state, const char* key, size_t klen) {
  (void)key, (void)klen;
  *(int*)state += 100;
}

/* Each way to delete what begins with a prefix, down to no key. */
static void prefixes(void) {
  fill();
  cleavedb_delete_prefix(words, writing, "c", 1, &err);
  CHECK_OK(err);
  holds("abdef");
  leveldb_writebatch_t* batch = leveldb_writebatch_create();
  leveldb_writebatch_t* outer = leveldb_writebatch_create();
  leveldb_writebatch_t* twice = leveldb_writebatch_create();
  cleavedb_writebatch_delete_prefix(batch, words, "d", 1);
  cleavedb_writebatch_delete_prefix(batch, words, "none", 4);
  leveldb_writebatch_append(outer, batch);
  leveldb_writebatch_append(twice, outer);
  leveldb_writebatch_destroy(batch);
  leveldb_writebatch_destroy(outer);
  leveldb_write(db, writing, twice, &err);
  leveldb_writebatch_destroy(twice);
  CHECK_OK(err);
  holds("abef");
  cleavedb_transaction_t* t = cleavedb_transaction_begin(db, &err);
  cleavedb_transaction_delete_prefix(t, words, "a", 1, &err);
  CHECK_OK(err);
  holds("abef");
  cleavedb_transaction_commit(t, writing, &err);
  CHECK_OK(err);
  cleavedb_transaction_destroy(t);
  holds("bef");
  cleavedb_delete_prefix(words, writing, NULL, 0, &err);
  CHECK_OK(err);
  holds("");
  cleavedb_delete_prefix(NULL, writing, "a", 1, &err);
  CHECK_ERROR(err, "Invalid argument: ");
  cleavedb_transaction_delete_prefix(NULL, words, "a", 1, &err);
  CHECK_ERROR(err, "Invalid argument: ");
  batch = leveldb_writebatch_create();
  cleavedb_writebatch_delete_prefix(batch, NULL, "a", 1);
  leveldb_write(db, writing, batch, &err);
  CHECK_ERROR(err, "Invalid argument: ");
  leveldb_writebatch_destroy(batch);
}

static void transactions(void) {
  fill();
  cleavedb_transaction_t* t = cleavedb_transaction_begin(db, &err);
  size_t len = 9;
  cleavedb_transaction_delete_range(t, words, "b", 1, "d", 1, &err);
  CHECK_OK(err);
  CHECK(cleavedb_transaction_get(t, words, reading, "c", 1, &len, &err) == NULL);
  holds("abcdef");
  cleavedb_transaction_commit(t, writing, &err);
  CHECK_OK(err);
  cleavedb_transaction_destroy(t);
  holds("adef");
}

static void misuse(void) {
  static char key[(64 << 10) + 1];
  fill();
  cleavedb_delete_range(words, writing, NULL, 0, key, sizeof key, &err);
  CHECK_ERROR(err, "Invalid argument: ");
  cleavedb_delete_range(NULL, writing, "a", 1, "b", 1, &err);
  CHECK_ERROR(err, "Invalid argument: ");
  leveldb_writebatch_t* batch = leveldb_writebatch_create();
  cleavedb_writebatch_delete_range(batch, words, "a", 1, key, sizeof key);
  leveldb_write(db, writing, batch, &err);
  CHECK_ERROR(err, "Invalid argument: ");
  leveldb_writebatch_clear(batch);
  cleavedb_writebatch_delete_range(batch, NULL, "a", 1, "b", 1);
  leveldb_write(db, writing, batch, &err);
  CHECK_ERROR(err, "Invalid argument: ");
  leveldb_writebatch_clear(batch);
  int heard = 0;
  cleavedb_writebatch_delete_range(batch, words, "a", 1, "b", 1);
  cleavedb_writebatch_delete(batch, words, "x", 1);
  cleavedb_writebatch_put(batch, words, "x", 1, "1", 1);
  leveldb_writebatch_iterate(batch, &heard, is_put, is_deleted);
  CHECK(heard == 101);
  leveldb_writebatch_destroy(batch);
  holds("abcdef");
}

int main(int argc, char** argv) {
  (void)argc;
  leveldb_options_t* options = leveldb_options_create();
  leveldb_options_set_create_if_missing(options, 1);
  reading = leveldb_readoptions_create();
  writing = leveldb_writeoptions_create();
  db = leveldb_open(options, below(argv, "db"), &err);
  CHECK_OK(err);
  words = cleavedb_keyspace_open(db, options, "words", &err);
  CHECK_OK(err);
  deletes("b", "d", "adef");
  deletes("b", NULL, "a");
  deletes(NULL, "e", "ef");
  deletes(NULL, NULL, "");
  deletes("d", "b", "abcdef");
  deletes("", "", "abcdef");
  prefixes();
  transactions();
  misuse();
  cleavedb_keyspace_close(words);
  leveldb_close(db);
  leveldb_readoptions_destroy(reading);
  leveldb_writeoptions_destroy(writing);
  leveldb_options_destroy(options);
  CHECK(cleavedb_open_handles() == 0);
  puts("ok");
  return 0;
}
