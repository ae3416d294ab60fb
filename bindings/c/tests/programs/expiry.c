/* Values expire as cleavedb/c.h says. */
#include <cleavedb/c.h>
#include <time.h>

#include "check.h"

static const uint64_t HOUR = 3600000;

static char* err = NULL;
static leveldb_readoptions_t* reading;
static leveldb_writeoptions_t* writing;
static cleavedb_keyspace_t* sessions;

static void has(const char* key, const char* expected) {
  size_t len = 9;
  char* value = cleavedb_get(sessions, reading, key, strlen(key), &len, &err);
  CHECK_OK(err);
  CHECK((value == NULL) == (expected == NULL));
  if (value != NULL) CHECK(len == strlen(expected) && memcmp(value, expected, len) == 0);
  leveldb_free(value);
}

/* Expects that a value stays for this long, but for the half hour that a slow test may take, or for
 * ever. */
static void stays(const char* key, uint64_t expected) {
  uint64_t left = 9;
  CHECK(cleavedb_ttl(sessions, reading, key, strlen(key), &left, &err) == 1);
  CHECK_OK(err);
  if (expected == CLEAVEDB_NEVER) {
    CHECK(left == CLEAVEDB_NEVER);
  } else {
    CHECK(left <= expected + 1000 && left + HOUR / 2 > expected);
  }
}

static void is_absent(const char* key) {
  uint64_t left = 9;
  has(key, NULL);
  CHECK(cleavedb_ttl(sessions, reading, key, strlen(key), &left, &err) == 0 && left == 0);
  CHECK(cleavedb_expire(sessions, writing, key, strlen(key), HOUR, &err) == 0);
  CHECK(cleavedb_persist(sessions, writing, key, strlen(key), &err) == 0);
  CHECK_OK(err);
  has(key, NULL);
}

static void deadlines(void) {
  uint64_t now = (uint64_t)time(NULL) * 1000;
  cleavedb_put_expiring(sessions, writing, "after", 5, "1", 1, HOUR, &err);
  cleavedb_put_expiring_at(sessions, writing, "at", 2, "2", 1, now + 2 * HOUR, &err);
  cleavedb_put_expiring(sessions, writing, "never", 5, "3", 1, CLEAVEDB_NEVER, &err);
  cleavedb_put_expiring_at(sessions, writing, "no end", 6, "4", 1, CLEAVEDB_NEVER, &err);
  cleavedb_put_expiring_at(sessions, writing, "late", 4, "5", 1, CLEAVEDB_NEVER - 1, &err);
  cleavedb_put_expiring(sessions, writing, "later", 5, "6", 1, CLEAVEDB_NEVER - 1, &err);
  cleavedb_put_expiring(sessions, writing, "at once", 7, "7", 1, 0, &err);
  cleavedb_put_expiring_at(sessions, writing, "gone", 4, "8", 1, now - HOUR, &err);
  cleavedb_put(sessions, writing, "plain", 5, "9", 1, &err);
  CHECK_OK(err);
  stays("after", HOUR);
  stays("at", 2 * HOUR);
  stays("never", CLEAVEDB_NEVER);
  stays("no end", CLEAVEDB_NEVER);
  stays("plain", 3 * HOUR);
  has("after", "1");
  has("late", "5");
  has("later", "6");
  is_absent("at once");
  is_absent("gone");
  is_absent("not put");
}

static void changes(void) {
  CHECK(cleavedb_expire(sessions, writing, "never", 5, HOUR, &err) == 1);
  stays("never", HOUR);
  uint64_t day = ((uint64_t)time(NULL) * 1000) + 24 * HOUR;
  CHECK(cleavedb_expire_at(sessions, writing, "never", 5, day, &err) == 1);
  stays("never", 24 * HOUR);
  CHECK(cleavedb_persist(sessions, writing, "plain", 5, &err) == 1);
  stays("plain", CLEAVEDB_NEVER);
  has("never", "3");
  has("plain", "9");
  CHECK(cleavedb_expire(sessions, writing, "plain", 5, 0, &err) == 1);
  is_absent("plain");
  CHECK(cleavedb_ttl(sessions, reading, "at", 2, NULL, &err) == 1);
  CHECK_OK(err);
  cleavedb_put_expiring(sessions, writing, NULL, 5, "1", 1, HOUR, &err);
  CHECK_ERROR(err, "Invalid argument: ");
  CHECK(cleavedb_expire(sessions, writing, NULL, 5, HOUR, &err) == 0);
  CHECK_ERROR(err, "Invalid argument: ");
}

/* Several puts at once, each with a deadline of its own. */
static void at_once(leveldb_t* db) {
  uint64_t now = (uint64_t)time(NULL) * 1000;
  leveldb_writebatch_t* batch = leveldb_writebatch_create();
  cleavedb_writebatch_put_expiring(batch, sessions, "b1", 2, "1", 1, HOUR);
  cleavedb_writebatch_put_expiring_at(batch, sessions, "b2", 2, "2", 1, now + 2 * HOUR);
  cleavedb_writebatch_put_expiring(batch, sessions, "b3", 2, "3", 1, CLEAVEDB_NEVER);
  cleavedb_writebatch_put_expiring(batch, sessions, "b4", 2, "4", 1, 0);
  cleavedb_writebatch_put(batch, sessions, "b5", 2, "5", 1);
  leveldb_writebatch_t* all = leveldb_writebatch_create();
  leveldb_writebatch_append(all, batch);
  leveldb_write(db, writing, all, &err);
  CHECK_OK(err);
  stays("b1", HOUR);
  stays("b2", 2 * HOUR);
  stays("b3", CLEAVEDB_NEVER);
  is_absent("b4");
  stays("b5", 3 * HOUR);
  has("b1", "1");
  cleavedb_writebatch_put_expiring(batch, sessions, NULL, 2, "1", 1, HOUR);
  leveldb_write(db, writing, batch, &err);
  CHECK_ERROR(err, "Invalid argument: ");
  leveldb_writebatch_destroy(batch);
  leveldb_writebatch_destroy(all);

  cleavedb_transaction_t* transaction = cleavedb_transaction_begin(db, &err);
  cleavedb_transaction_put_expiring(transaction, sessions, "t1", 2, "1", 1, HOUR, &err);
  cleavedb_transaction_put_expiring_at(transaction, sessions, "t2", 2, "2", 1, CLEAVEDB_NEVER,
                                       &err);
  cleavedb_transaction_put_expiring_at(transaction, sessions, "t3", 2, "3", 1, now - HOUR, &err);
  CHECK_OK(err);
  cleavedb_transaction_put_expiring(transaction, sessions, NULL, 2, "1", 1, HOUR, &err);
  CHECK_ERROR(err, "Invalid argument: ");
  is_absent("t1");
  cleavedb_transaction_commit(transaction, writing, &err);
  CHECK_OK(err);
  stays("t1", HOUR);
  stays("t2", CLEAVEDB_NEVER);
  is_absent("t3");
  cleavedb_transaction_put_expiring(transaction, sessions, "t4", 2, "4", 1, HOUR, &err);
  CHECK_ERROR(err, "Invalid argument: ");
  cleavedb_transaction_destroy(transaction);
}

int main(int argc, char** argv) {
  (void)argc;
  leveldb_options_t* options = leveldb_options_create();
  leveldb_options_set_create_if_missing(options, 1);
  reading = leveldb_readoptions_create();
  writing = leveldb_writeoptions_create();
  leveldb_t* db = leveldb_open(options, below(argv, "db"), &err);
  CHECK_OK(err);
  cleavedb_options_set_default_ttl(options, 3 * HOUR);
  sessions = cleavedb_keyspace_open(db, options, "sessions", &err);
  CHECK_OK(err);
  deadlines();
  changes();
  at_once(db);

  /* A default of never takes the default away, for what is put from then on. */
  cleavedb_put(sessions, writing, "before", 6, "1", 1, &err);
  cleavedb_keyspace_close(sessions);
  cleavedb_options_set_default_ttl(options, CLEAVEDB_NEVER);
  sessions = cleavedb_keyspace_open(db, options, "sessions", &err);
  CHECK_OK(err);
  cleavedb_put(sessions, writing, "now", 3, "1", 1, &err);
  stays("before", 3 * HOUR);
  stays("now", CLEAVEDB_NEVER);

  leveldb_close(db);
  uint64_t left = 9;
  CHECK(cleavedb_ttl(sessions, reading, "now", 3, &left, &err) == 0 && left == 0);
  CHECK_ERROR(err, "IO error: ");
  cleavedb_keyspace_close(sessions);
  leveldb_readoptions_destroy(reading);
  leveldb_writeoptions_destroy(writing);
  leveldb_options_destroy(options);
  CHECK(cleavedb_open_handles() == 0);
  puts("ok");
  return 0;
}
