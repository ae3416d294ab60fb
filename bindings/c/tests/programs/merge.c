/* Merges, and operators that are functions of C, as cleavedb/c.h says. */
#include <cleavedb/c.h>

#include "check.h"

static char* err = NULL;
static leveldb_readoptions_t* reading;
static leveldb_writeoptions_t* writing;
static int destroyed = 0;

static void destroy(void* state) {
  CHECK(state != NULL);
  destroyed++;
}

static void is_put_of_m(void* state, const char* key, size_t keylen, const char* value,
                        size_t valuelen) {
  CHECK(keylen == 1 && *key == 'm' && valuelen == 1 && *value == '7');
  ++*(int*)state;
}

static void is_no_delete(void* state, const char* key, size_t keylen) {
  (void)state, (void)key, (void)keylen;
  CHECK(0);
}

static const char* name(void* state) {
  (void)state;
  return "test.join";
}

/* Joins all with the state's character, and fails for an operand "fail". */
static uint8_t full(void* state, const char* key, size_t keylen, const char* base, size_t baselen,
                    const char* const* operands, const size_t* lens, size_t num, char** result,
                    size_t* resultlen) {
  CHECK(key != NULL && keylen > 0 && num > 0);
  size_t room = baselen + 1, len = 0;
  for (size_t i = 0; i < num; i++) room += lens[i] + 1;
  char* joined = malloc(room);
  CHECK(joined != NULL);
  if (base != NULL) {
    memcpy(joined, base, baselen);
    len = baselen;
  }
  for (size_t i = 0; i < num; i++) {
    if (lens[i] == 4 && memcmp(operands[i], "fail", 4) == 0) {
      free(joined);
      return 0;
    }
    if (base != NULL || i > 0) joined[len++] = *(const char*)state;
    memcpy(joined + len, operands[i], lens[i]);
    len += lens[i];
  }
  *result = joined;
  *resultlen = len;
  return 1;
}

static uint8_t partial(void* state, const char* key, size_t keylen, const char* older,
                       size_t olderlen, const char* newer, size_t newerlen, char** result,
                       size_t* resultlen) {
  if (newerlen == 4 || olderlen == 4) return 0;
  const char* operands[] = {newer};
  return full(state, key, keylen, older, olderlen, operands, &newerlen, 1, result, resultlen);
}

static void has(cleavedb_keyspace_t* keyspace, const char* key, const char* expected) {
  size_t len = 0;
  char* value = cleavedb_get(keyspace, reading, key, strlen(key), &len, &err);
  CHECK_OK(err);
  CHECK(value != NULL && len == strlen(expected) && memcmp(value, expected, len) == 0);
  leveldb_free(value);
}

static void merge(cleavedb_keyspace_t* keyspace, const char* key, const char* operand) {
  cleavedb_merge(keyspace, writing, key, strlen(key), operand, strlen(operand), &err);
}

int main(int argc, char** argv) {
  CHECK(argc > 1);
  const char* path = below(argv, "db");
  char comma = ',';
  reading = leveldb_readoptions_create();
  writing = leveldb_writeoptions_create();
  leveldb_options_t* options = leveldb_options_create();
  leveldb_options_set_create_if_missing(options, 1);
  cleavedb_options_add_merge_operator(options, &comma, destroy, full, partial, name);
  leveldb_t* db = leveldb_open(options, path, &err);
  CHECK_OK(err);

  leveldb_options_t* adds = leveldb_options_create();
  cleavedb_options_set_merge_operator(adds, "cleavedb.Add");
  cleavedb_keyspace_t* counters = cleavedb_keyspace_open(db, adds, "counters", &err);
  CHECK_OK(err);
  merge(counters, "n", "40");
  CHECK_OK(err);
  merge(counters, "n", "many");
  CHECK(err != NULL);
  leveldb_free(err);
  err = NULL;
  leveldb_writebatch_t* batch = leveldb_writebatch_create();
  cleavedb_writebatch_merge(batch, counters, "n", 1, "1", 1);
  cleavedb_writebatch_put(batch, counters, "m", 1, "7", 1);
  /* A merge was shown as a put of its operand, and a program that copied a batch by what it was
   * shown wrote the operand over the value. It is passed over now, as a range is. */
  int shown = 0;
  leveldb_writebatch_iterate(batch, &shown, is_put_of_m, is_no_delete);
  CHECK(shown == 1);
  leveldb_write(db, writing, batch, &err);
  CHECK_OK(err);
  leveldb_writebatch_destroy(batch);
  cleavedb_transaction_t* transaction = cleavedb_transaction_begin(db, &err);
  CHECK_OK(err);
  cleavedb_transaction_merge(transaction, counters, "n", 1, "1", 1, &err);
  CHECK_OK(err);
  cleavedb_transaction_commit(transaction, writing, &err);
  CHECK_OK(err);
  cleavedb_transaction_destroy(transaction);
  has(counters, "n", "42");
  has(counters, "m", "7");

  leveldb_options_t* joins = leveldb_options_create();
  cleavedb_options_set_merge_operator(joins, "test.join");
  cleavedb_keyspace_t* words = cleavedb_keyspace_open(db, joins, "words", &err);
  CHECK_OK(err);
  merge(words, "w", "a");
  merge(words, "w", "");
  merge(words, "w", "b");
  CHECK_OK(err);
  has(words, "w", "a,,b");
  leveldb_compact_range(db, NULL, 0, NULL, 0);
  has(words, "w", "a,,b");
  merge(words, "w", "fail");
  CHECK_OK(err);
  size_t len = 0;
  CHECK(cleavedb_get(words, reading, "w", 1, &len, &err) == NULL && err != NULL);
  CHECK(strstr(err, "test.join") != NULL);
  leveldb_free(err);
  err = NULL;
  cleavedb_put(words, writing, "w", 1, "c", 1, &err);
  merge(words, "w", "d");
  CHECK_OK(err);
  has(words, "w", "c,d");

  cleavedb_keyspace_close(counters);
  cleavedb_keyspace_close(words);
  leveldb_close(db);
  leveldb_options_t* without = leveldb_options_create();
  CHECK(leveldb_open(without, path, &err) == NULL && err != NULL);
  CHECK(strstr(err, "test.join") != NULL);
  leveldb_free(err);
  err = NULL;
  CHECK(destroyed == 0);
  leveldb_options_destroy(options);
  CHECK(destroyed == 1);
  leveldb_options_destroy(adds);
  leveldb_options_destroy(joins);
  leveldb_options_destroy(without);
  leveldb_readoptions_destroy(reading);
  leveldb_writeoptions_destroy(writing);
  puts("ok");
  return 0;
}
