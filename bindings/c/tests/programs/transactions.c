/* Conditional writes, requirements of batches and transactions do what cleavedb/c.h says. */
#include <cleavedb/c.h>
#include <pthread.h>

#include "check.h"

enum { THREADS = 4, ROUNDS = 100 };

static char* err = NULL;
static leveldb_t* db;
static leveldb_readoptions_t* reading;
static leveldb_writeoptions_t* writing;
static cleavedb_keyspace_t* words;
static cleavedb_keyspace_t* other;

static void same(char* value, size_t len, const char* expected) {
  CHECK_OK(err);
  if (expected == NULL) {
    CHECK(value == NULL && len == 0);
  } else {
    CHECK(value != NULL && len == strlen(expected) && memcmp(value, expected, len) == 0);
  }
  leveldb_free(value);
}

static void has(const char* key, const char* expected) {
  size_t len = 9;
  char* value = cleavedb_get(words, reading, key, strlen(key), &len, &err);
  same(value, len, expected);
}

static uint64_t version_of(const char* key, const char* expected) {
  size_t len = 9;
  uint64_t version = 9;
  char* value = cleavedb_get_versioned(words, reading, key, strlen(key), &len, &version, &err);
  CHECK((value != NULL) == (version != 0));
  same(value, len, expected);
  return version;
}

static void conditional_writes(void) {
  uint64_t first = 0, second = 0, third = 0, seen = 7;
  size_t len = 7;
  char* found = (char*)1;
  CHECK(version_of("a", NULL) == 0);
  CHECK(cleavedb_put_if_absent(words, writing, "a", 1, "1", 1, &first, &found, &len, &err) == 1);
  CHECK(first > 0 && found == NULL && len == 0 && version_of("a", "1") == first);
  CHECK(!cleavedb_put_if_absent(words, writing, "a", 1, "x", 1, &seen, &found, &len, &err));
  CHECK(seen == first);
  same(found, len, "1");
  CHECK(!cleavedb_put_if_absent(words, writing, "a", 1, "x", 1, NULL, NULL, NULL, &err));
  CHECK_OK(err);

  CHECK(cleavedb_compare_and_set(words, writing, "a", 1, "1", 1, "2", 1, &second, &found, &len,
                                 &err));
  CHECK(second > first && found == NULL);
  CHECK(!cleavedb_compare_and_set(words, writing, "a", 1, "1", 1, "x", 1, &seen, &found, &len,
                                  &err));
  CHECK(seen == second);
  same(found, len, "2");
  CHECK(cleavedb_compare_and_set_version(words, writing, "a", 1, second, "3", 1, &third, &found,
                                         &len, &err));
  CHECK(third > second);
  CHECK(!cleavedb_compare_and_set_version(words, writing, "a", 1, second, "x", 1, &seen,
                                          &found, &len, &err));
  CHECK(seen == third);
  same(found, len, "3");
  /* No version is 0, and what is absent has none. */
  CHECK(!cleavedb_compare_and_set_version(words, writing, "no", 2, 0, "x", 1, &seen, &found,
                                          &len, &err));
  CHECK(seen == 0);
  same(found, len, NULL);

  CHECK(!cleavedb_compare_and_delete(words, writing, "a", 1, "2", 1, NULL, &found, &len, &err));
  same(found, len, "3");
  CHECK(cleavedb_compare_and_delete(words, writing, "a", 1, "3", 1, NULL, NULL, NULL, &err));
  has("a", NULL);
  /* An empty value is a value. */
  CHECK(cleavedb_put_if_absent(words, writing, "a", 1, NULL, 0, &first, NULL, NULL, &err));
  CHECK(!cleavedb_compare_and_delete_version(words, writing, "a", 1, first + 1, NULL, &found, &len,
                                             &err));
  same(found, len, "");
  CHECK(cleavedb_compare_and_delete_version(words, writing, "a", 1, first, NULL, NULL, NULL, &err));
  CHECK_OK(err);
  has("a", NULL);

  CHECK(!cleavedb_compare_and_set(words, writing, "a", 1, NULL, 5, "x", 1, &first, &found, &len,
                                  &err));
  CHECK(first == 0 && found == NULL && len == 0);
  CHECK_ERROR(err, "Invalid argument: ");
}

static void requirements(void) {
  leveldb_writebatch_t* batch = leveldb_writebatch_create();
  cleavedb_writebatch_require_absent(batch, other, "owner", 5);
  cleavedb_writebatch_put(batch, other, "owner", 5, "ada", 3);
  cleavedb_writebatch_put(batch, words, "taken", 5, "by ada", 6);
  leveldb_write(db, writing, batch, &err);
  CHECK_OK(err);
  cleavedb_writebatch_put(batch, words, "taken", 5, "again", 5);
  leveldb_write(db, writing, batch, &err);
  CHECK_ERROR(err, "Conflict: ");
  uint64_t version = version_of("taken", "by ada");

  leveldb_writebatch_clear(batch);
  cleavedb_writebatch_require_version(batch, words, "taken", 5, version);
  leveldb_writebatch_t* more = leveldb_writebatch_create();
  cleavedb_writebatch_require_value(more, other, "owner", 5, "eve", 3);
  cleavedb_writebatch_delete(more, words, "taken", 5);
  leveldb_writebatch_append(batch, more);
  leveldb_write(db, writing, batch, &err);
  CHECK_ERROR(err, "Conflict: ");
  leveldb_put(db, writing, "anything", 8, "else", 4, &err);
  leveldb_writebatch_clear(batch);
  cleavedb_writebatch_require_version(batch, words, "taken", 5, version);
  leveldb_writebatch_clear(more);
  cleavedb_writebatch_require_value(more, other, "owner", 5, "ada", 3);
  cleavedb_writebatch_delete(more, words, "taken", 5);
  leveldb_writebatch_append(batch, more);
  leveldb_write(db, writing, batch, &err);
  CHECK_OK(err);
  has("taken", NULL);
  cleavedb_writebatch_require_value(batch, NULL, "owner", 5, "ada", 3);
  leveldb_write(db, writing, batch, &err);
  CHECK_ERROR(err, "Invalid argument: ");
  leveldb_writebatch_destroy(batch);
  leveldb_writebatch_destroy(more);
}

static cleavedb_transaction_t* begin(void) {
  cleavedb_transaction_t* made = cleavedb_transaction_begin(db, &err);
  CHECK_OK(err);
  CHECK(made != NULL);
  return made;
}

static void put_in(cleavedb_transaction_t* t, const char* key, const char* value) {
  cleavedb_transaction_put(t, words, key, strlen(key), value, strlen(value), &err);
  CHECK_OK(err);
}

static void has_in(cleavedb_transaction_t* t, const char* key, const char* expected) {
  size_t len = 9;
  char* value = cleavedb_transaction_get(t, words, reading, key, strlen(key), &len, &err);
  same(value, len, expected);
}

static void walk(leveldb_iterator_t* iter, const char* expected) {
  char found[256] = "";
  size_t len;
  for (leveldb_iter_seek_to_first(iter); leveldb_iter_valid(iter); leveldb_iter_next(iter)) {
    const char* key = leveldb_iter_key(iter, &len);
    snprintf(found + strlen(found), 32, "%.*s ", (int)len, key);
  }
  leveldb_iter_get_error(iter, &err);
  CHECK_OK(err);
  CHECK(strcmp(found, expected) == 0);
}

static void refused_after_the_end(cleavedb_transaction_t* t, const char* start) {
  size_t len;
  uint64_t version;
  cleavedb_transaction_put(t, words, "k", 1, "v", 1, &err);
  CHECK_ERROR(err, start);
  cleavedb_transaction_delete(t, words, "k", 1, &err);
  CHECK_ERROR(err, start);
  CHECK(cleavedb_transaction_get(t, words, reading, "k", 1, &len, &err) == NULL);
  CHECK_ERROR(err, start);
  CHECK(!cleavedb_transaction_get_versioned(t, words, reading, "k", 1, &len, &version, &err));
  CHECK_ERROR(err, start);
  CHECK(cleavedb_transaction_savepoint(t, &err) == 0);
  CHECK_ERROR(err, start);
  cleavedb_transaction_rollback_to(t, 1, &err);
  CHECK_ERROR(err, "Invalid argument: ");
  leveldb_iterator_t* iter = cleavedb_transaction_create_iterator(t, words, reading);
  leveldb_iter_seek_to_first(iter);
  CHECK(!leveldb_iter_valid(iter));
  leveldb_iter_get_error(iter, &err);
  CHECK_ERROR(err, start);
  leveldb_iter_destroy(iter);
  cleavedb_transaction_commit(t, writing, &err);
  CHECK_ERROR(err, start);
}

static void one_transaction(void) {
  cleavedb_put(words, writing, "a", 1, "1", 1, &err);
  cleavedb_put(words, writing, "c", 1, "3", 1, &err);
  CHECK_OK(err);
  cleavedb_transaction_t* t = begin();
  cleavedb_put(words, writing, "d", 1, "of somebody else", 16, &err);
  has_in(t, "a", "1");
  has_in(t, "d", NULL);
  put_in(t, "b", "2");
  has_in(t, "b", "2");
  has("b", NULL);
  size_t len;
  uint64_t version = 9;
  char* own = cleavedb_transaction_get_versioned(t, words, reading, "b", 1, &len, &version, &err);
  same(own, len, "2");
  CHECK(version == 0);
  cleavedb_transaction_delete(t, words, "a", 1, &err);
  cleavedb_transaction_put(t, other, "side", 4, "effect", 6, &err);
  CHECK_OK(err);
  leveldb_iterator_t* iter = cleavedb_transaction_create_iterator(t, words, reading);
  walk(iter, "anything b c ");

  uint64_t first = cleavedb_transaction_savepoint(t, &err);
  put_in(t, "e", "5");
  uint64_t second = cleavedb_transaction_savepoint(t, &err);
  put_in(t, "f", "6");
  CHECK(first != 0 && second != 0 && first != second);
  cleavedb_transaction_rollback_to(t, second, &err);
  CHECK_OK(err);
  has_in(t, "e", "5");
  has_in(t, "f", NULL);
  cleavedb_transaction_rollback_to(t, first, &err);
  cleavedb_transaction_rollback_to(t, first, &err);
  CHECK_OK(err);
  has_in(t, "e", NULL);
  cleavedb_transaction_rollback_to(t, second, &err);
  CHECK_ERROR(err, "Invalid argument: ");
  cleavedb_transaction_rollback_to(t, 0, &err);
  CHECK_ERROR(err, "Invalid argument: ");

  /* The walk has read where "d" was added. */
  cleavedb_transaction_commit(t, writing, &err);
  CHECK_ERROR(err, "Conflict: ");
  refused_after_the_end(t, "Invalid argument: ");
  has("a", "1");
  has("b", NULL);
  walk(iter, "anything b c ");
  leveldb_iter_destroy(iter);
  cleavedb_transaction_destroy(t);

  t = begin();
  put_in(t, "b", "2");
  cleavedb_transaction_delete(t, words, "a", 1, &err);
  cleavedb_transaction_put(t, other, "side", 4, "effect", 6, &err);
  cleavedb_transaction_commit(t, writing, &err);
  CHECK_OK(err);
  refused_after_the_end(t, "Invalid argument: ");
  cleavedb_transaction_destroy(t);
  cleavedb_transaction_destroy(t);
  refused_after_the_end(t, "Invalid argument: ");
  has("a", NULL);
  has("b", "2");

  t = begin();
  put_in(t, "b", "never");
  cleavedb_transaction_destroy(t);
  has("b", "2");

  /* A transaction reads at its own moment, not at that of a snapshot. */
  t = begin();
  const leveldb_snapshot_t* snapshot = leveldb_create_snapshot(db);
  leveldb_readoptions_t* then = leveldb_readoptions_create();
  leveldb_readoptions_set_snapshot(then, snapshot);
  CHECK(cleavedb_transaction_get(t, words, then, "b", 1, &len, &err) == NULL);
  CHECK_ERROR(err, "Invalid argument: ");
  leveldb_release_snapshot(db, snapshot);
  leveldb_readoptions_destroy(then);
  cleavedb_transaction_destroy(t);
}

/* Adds one to a number, again after each conflict. */
static void* count(void* conflicts) {
  char* failure = NULL;
  for (int round = 0; round < ROUNDS;) {
    size_t len;
    cleavedb_transaction_t* t = cleavedb_transaction_begin(db, &failure);
    char* value = cleavedb_transaction_get(t, words, reading, "count", 5, &len, &failure);
    CHECK_OK(failure);
    char next[16];
    int size = snprintf(next, sizeof next, "%08d", value == NULL ? 1 : atoi(value) + 1);
    leveldb_free(value);
    cleavedb_transaction_put(t, words, "count", 5, next, (size_t)size + 1, &failure);
    CHECK_OK(failure);
    cleavedb_transaction_commit(t, writing, &failure);
    cleavedb_transaction_destroy(t);
    if (failure == NULL) {
      round++;
      continue;
    }
    CHECK_ERROR(failure, "Conflict: ");
    ++*(int*)conflicts;
  }
  return NULL;
}

/* Adds a letter, and deletes what has three. */
static char* longer(void* calls, const char* old, size_t oldlen, size_t* newlen) {
  ++*(int*)calls;
  CHECK((old == NULL) == (oldlen == 0));
  if (oldlen == 3) return NULL;
  char* grown = malloc(oldlen + 1);
  if (oldlen > 0) memcpy(grown, old, oldlen);
  grown[oldlen] = 'x';
  *newlen = oldlen + 1;
  return grown;
}
static char* too_long(void* calls, const char* old, size_t oldlen, size_t* newlen) {
  (void)calls, (void)old, (void)oldlen;
  *newlen = (size_t)-1;
  return malloc(1);
}

static void updates(void) {
  int calls = 0;
  const char* expected[] = {"x", "xx", "xxx", NULL, "x"};
  for (int n = 0; n < 5; n++) {
    cleavedb_update(words, writing, "grows", 5, &calls, longer, &err);
    CHECK_OK(err);
    version_of("grows", expected[n]);
  }
  CHECK(calls == 5);
  uint64_t before = version_of("grows", "x");
  cleavedb_update(words, writing, "grows", 5, &calls, too_long, &err);
  CHECK_ERROR(err, "Invalid argument: ");
  cleavedb_update(words, writing, "grows", 5, &calls, NULL, &err);
  CHECK_ERROR(err, "Invalid argument: ");
  CHECK(version_of("grows", "x") == before);
}

/* Increments a counter; the first run of each is disturbed by somebody else's write. */
struct run { int runs, commits; cleavedb_transaction_t* last; };
static int counted(void* state, cleavedb_transaction_t* t) {
  struct run* run = state;
  size_t len;
  char* value = cleavedb_transaction_get(t, words, reading, "total", 5, &len, &err);
  CHECK_OK(err);
  char next[20];
  int size = snprintf(next, sizeof next, "%d", value ? atoi(value) + 1 : 1);
  leveldb_free(value);
  cleavedb_transaction_put(t, words, "total", 5, next, (size_t)size + 1, &err);
  CHECK_OK(err);
  if (run->runs++ == 0) {
    cleavedb_put(words, writing, "total", 5, "100", 4, &err);
    CHECK_OK(err);
  }
  run->last = t;
  return run->commits;
}

static void transacts(void) {
  struct run run = {0, 1, NULL};
  CHECK(cleavedb_transact(db, writing, &run, counted, &err) == 1);
  CHECK_OK(err);
  CHECK(run.runs == 2);
  /* The transaction has ended. */
  cleavedb_transaction_commit(run.last, writing, &err);
  CHECK_ERROR(err, "Invalid argument: ");
  run.commits = 0;
  CHECK(cleavedb_transact(db, writing, &run, counted, &err) == 0);
  CHECK_OK(err);
  size_t len;
  char* value = cleavedb_get(words, reading, "total", 5, &len, &err);
  CHECK_OK(err);
  CHECK(atoi(value) == 101);
  leveldb_free(value);
  CHECK(cleavedb_transact(db, writing, &run, NULL, &err) == 0);
  CHECK_ERROR(err, "Invalid argument: ");
}

static void threads_count(void) {
  pthread_t threads[THREADS];
  int conflicts[THREADS] = {0};
  for (int n = 0; n < THREADS; n++) pthread_create(&threads[n], NULL, count, &conflicts[n]);
  for (int n = 0; n < THREADS; n++) pthread_join(threads[n], NULL);
  size_t len;
  char* value = cleavedb_get(words, reading, "count", 5, &len, &err);
  CHECK_OK(err);
  CHECK(atoi(value) == THREADS * ROUNDS);
  leveldb_free(value);
}

int main(int argc, char** argv) {
  (void)argc;
  leveldb_options_t* options = leveldb_options_create();
  leveldb_options_set_create_if_missing(options, 1);
  reading = leveldb_readoptions_create();
  writing = leveldb_writeoptions_create();
  db = leveldb_open(options, below(argv, "db"), &err);
  CHECK_OK(err);
  words = cleavedb_keyspace_open(db, NULL, "default", &err);
  other = cleavedb_keyspace_open(db, NULL, "other", &err);
  CHECK_OK(err);
  conditional_writes();
  requirements();
  one_transaction();
  updates();
  transacts();
  threads_count();

  /* The database may be closed before its transactions, which then refuse to work. */
  cleavedb_transaction_t* open = begin();
  put_in(open, "late", "x");
  leveldb_close(db);
  refused_after_the_end(open, "IO error: ");
  cleavedb_transaction_destroy(open);
  CHECK(cleavedb_transaction_begin(db, &err) == NULL);
  CHECK_ERROR(err, "Invalid argument: ");
  cleavedb_keyspace_close(words);
  cleavedb_keyspace_close(other);
  leveldb_readoptions_destroy(reading);
  leveldb_writeoptions_destroy(writing);
  leveldb_options_destroy(options);
  CHECK(cleavedb_open_handles() == 0);
  puts("ok");
  return 0;
}
