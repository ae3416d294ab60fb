/* Compaction filters drop and change values as cleavedb/c.h says. */
#include <cleavedb/c.h>

#include "check.h"

static char* err = NULL;
static leveldb_readoptions_t* reading;
static leveldb_writeoptions_t* writing;
static int destroyed = 0;

/* The state of the filter: what it answers for values that begin with a question mark. */
struct rules {
  int unknown;
};

static void destroy(void* state) {
  CHECK(state != NULL);
  destroyed++;
}

static const char* name(void* state) {
  (void)state;
  return "test.rules";
}

static int filter(void* state, const cleavedb_filtered_entry_t* entry, char** val, size_t* vallen) {
  const struct rules* rules = state;
  size_t keylen = 0, len = 0;
  const char* key = cleavedb_filtered_entry_key(entry, &keylen);
  CHECK(key != NULL && cleavedb_filtered_entry_version(entry) > 0);
  if (keylen == 4 && memcmp(key, "soon", 4) == 0) {
    CHECK(cleavedb_filtered_entry_expires_at(entry) != CLEAVEDB_NEVER);
    return cleavedb_filter_drop;
  }
  CHECK(cleavedb_filtered_entry_expires_at(entry) == CLEAVEDB_NEVER);
  const char* value = cleavedb_filtered_entry_value(entry, &len);
  CHECK(value != NULL);
  if (len == 0) return cleavedb_filter_drop;
  if (value[0] == '?') return rules->unknown;
  if (value[0] == '0') return cleavedb_filter_change; /* to an empty value */
  if (value[0] != '+') return cleavedb_filter_keep;
  *val = malloc(len);
  CHECK(*val != NULL);
  memcpy(*val, value, len);
  (*val)[0] = '-';
  *vallen = len;
  return cleavedb_filter_change;
}

static void has(leveldb_t* db, const char* key, char begins, size_t expected) {
  size_t len = 0;
  char* value = leveldb_get(db, reading, key, strlen(key), &len, &err);
  CHECK_OK(err);
  CHECK(value != NULL && len == expected);
  if (expected > 0) CHECK(value[0] == begins);
  leveldb_free(value);
}

static void is_absent(leveldb_t* db, const char* key) {
  size_t len = 0;
  CHECK(leveldb_get(db, reading, key, strlen(key), &len, &err) == NULL);
  CHECK_OK(err);
}

static void put(leveldb_t* db, const char* key, char begins, size_t len) {
  char* value = malloc(len + 1);
  CHECK(value != NULL);
  memset(value, '.', len + 1);
  value[0] = begins;
  leveldb_put(db, writing, key, strlen(key), value, len, &err);
  CHECK_OK(err);
  free(value);
}

int main(int argc, char** argv) {
  (void)argc;
  static struct rules rules = {7};
  reading = leveldb_readoptions_create();
  writing = leveldb_writeoptions_create();
  leveldb_options_t* options = leveldb_options_create();
  leveldb_options_set_create_if_missing(options, 1);
  cleavedb_options_set_compaction_filter(options, "default", &rules, destroy, filter, name);
  leveldb_t* db = leveldb_open(options, below(argv, "filters"), &err);
  CHECK_OK(err);
  put(db, "stays", 'k', 10);
  put(db, "small", '+', 10);
  put(db, "large", '+', 5000);
  put(db, "empty", '0', 5);
  put(db, "goes", 'x', 0);
  cleavedb_keyspace_t* keyspace = cleavedb_keyspace_open(db, NULL, "default", &err);
  cleavedb_put_expiring(keyspace, writing, "soon", 4, "1", 1, 3600000, &err);
  CHECK_OK(err);
  cleavedb_keyspace_close(keyspace);
  const leveldb_snapshot_t* before = leveldb_create_snapshot(db);
  leveldb_compact_range(db, NULL, 0, NULL, 0);
  has(db, "small", '+', 10);
  leveldb_release_snapshot(db, before);
  leveldb_compact_range(db, NULL, 0, NULL, 0);
  has(db, "stays", 'k', 10);
  has(db, "small", '-', 10);
  has(db, "large", '-', 5000);
  has(db, "empty", ' ', 0);
  is_absent(db, "goes");
  is_absent(db, "soon");

  /* An answer that is none changes nothing. */
  put(db, "unknown", '?', 10);
  leveldb_compact_range(db, NULL, 0, NULL, 0);
  has(db, "unknown", '?', 10);
  rules.unknown = cleavedb_filter_drop;
  leveldb_compact_range(db, NULL, 0, NULL, 0);
  is_absent(db, "unknown");
  leveldb_close(db);
  CHECK(destroyed == 0);
  leveldb_options_destroy(options);
  CHECK(destroyed == 1);

  /* Without a function there is no filter, and opening says so. */
  options = leveldb_options_create();
  cleavedb_options_set_compaction_filter(options, "default", &rules, destroy, NULL, name);
  CHECK(leveldb_open(options, below(argv, "filters"), &err) == NULL);
  CHECK_ERROR(err, "Invalid argument: ");
  leveldb_options_destroy(options);
  leveldb_readoptions_destroy(reading);
  leveldb_writeoptions_destroy(writing);
  CHECK(destroyed == 1 && cleavedb_open_handles() == 0);
  puts("ok");
  return 0;
}
