/* An account, moved between by many programs at once: compare-and-set, a batch with a requirement,
 * and a transaction that is run again after a conflict.
 * Usage: transactions DIRECTORY */
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

static long balance(cleavedb_transaction_t* t, cleavedb_keyspace_t* accounts,
                    const leveldb_readoptions_t* reading, const char* name, char** err) {
  size_t len;
  char text[32] = "0";
  char* value = cleavedb_transaction_get(t, accounts, reading, name, strlen(name), &len, err);
  if (value != NULL && len < sizeof text) memcpy(text, value, len), text[len] = 0;
  leveldb_free(value);
  return atol(text);
}

static void set_balance(cleavedb_transaction_t* t, cleavedb_keyspace_t* accounts, const char* name,
                        long amount, char** err) {
  char text[32];
  int len = snprintf(text, sizeof text, "%ld", amount);
  cleavedb_transaction_put(t, accounts, name, strlen(name), text, (size_t)len, err);
}

/* Moves an amount; whoever writes one of the two accounts meanwhile makes this run again. */
static void transfer(leveldb_t* db, cleavedb_keyspace_t* accounts, const char* from, const char* to,
                     long amount) {
  leveldb_readoptions_t* reading = leveldb_readoptions_create();
  leveldb_writeoptions_t* writing = leveldb_writeoptions_create();
  char* err = NULL;
  for (int again = 1; again;) {
    cleavedb_transaction_t* t = cleavedb_transaction_begin(db, &err);
    long left = balance(t, accounts, reading, from, &err) - amount;
    long right = balance(t, accounts, reading, to, &err) + amount;
    set_balance(t, accounts, from, left, &err);
    set_balance(t, accounts, to, right, &err);
    expect_success(err);
    cleavedb_transaction_commit(t, writing, &err);
    cleavedb_transaction_destroy(t);
    again = err != NULL && strncmp(err, "Conflict: ", 10) == 0;
    if (again) leveldb_free(err), err = NULL;
  }
  expect_success(err);
  leveldb_readoptions_destroy(reading);
  leveldb_writeoptions_destroy(writing);
}

int main(int argc, char** argv) {
  if (argc < 2) return 2;
  char path[4096];
  snprintf(path, sizeof path, "%s/transactions", argv[1]);
  char* err = NULL;
  leveldb_options_t* options = leveldb_options_create();
  leveldb_options_set_create_if_missing(options, 1);
  leveldb_writeoptions_t* writing = leveldb_writeoptions_create();
  leveldb_t* db = leveldb_open(options, path, &err);
  expect_success(err);
  cleavedb_keyspace_t* accounts = cleavedb_keyspace_open(db, NULL, "accounts", &err);
  expect_success(err);

  /* One key: compare-and-set, by absence, by value and by version. */
  uint64_t version = 0;
  size_t len;
  char* found;
  cleavedb_put_if_absent(accounts, writing, "ada", 3, "100", 3, &version, NULL, NULL, &err);
  if (!cleavedb_compare_and_set(accounts, writing, "ada", 3, "90", 2, "80", 2, &version, &found,
                                &len, &err)) {
    expect_success(err);
    printf("ada has %.*s, not 90\n", (int)len, found);
    leveldb_free(found);
  }
  cleavedb_compare_and_set_version(accounts, writing, "ada", 3, version, "120", 3, &version, NULL,
                                   NULL, &err);
  expect_success(err);

  /* Several keys, one of which decides: a batch with a requirement. */
  leveldb_writebatch_t* batch = leveldb_writebatch_create();
  cleavedb_writebatch_require_absent(batch, accounts, "grace", 5);
  cleavedb_writebatch_put(batch, accounts, "grace", 5, "0", 1);
  cleavedb_writebatch_put(batch, accounts, "newest", 6, "grace", 5);
  leveldb_write(db, writing, batch, &err);
  expect_success(err);
  leveldb_write(db, writing, batch, &err);
  printf("the second time it is a conflict: %s\n",
         err != NULL && strncmp(err, "Conflict: ", 10) == 0 ? "yes" : "no");
  leveldb_free(err);
  err = NULL;
  leveldb_writebatch_destroy(batch);

  /* A hold of an hour on grace's account, put together with a note that stays. */
  batch = leveldb_writebatch_create();
  cleavedb_writebatch_require_absent(batch, accounts, "hold grace", 10);
  cleavedb_writebatch_put_expiring(batch, accounts, "hold grace", 10, "ada", 3, 3600 * 1000);
  cleavedb_writebatch_put(batch, accounts, "last hold", 9, "grace", 5);
  leveldb_write(db, writing, batch, &err);
  expect_success(err);
  leveldb_writebatch_destroy(batch);

  /* What is written depends on what was read: a transaction. */
  transfer(db, accounts, "ada", "grace", 20);
  leveldb_readoptions_t* reading = leveldb_readoptions_create();
  found = cleavedb_get(accounts, reading, "grace", 5, &len, &err);
  expect_success(err);
  printf("grace has %.*s\n", (int)len, found);
  leveldb_free(found);

  leveldb_readoptions_destroy(reading);
  leveldb_writeoptions_destroy(writing);
  cleavedb_keyspace_close(accounts);
  leveldb_close(db);
  leveldb_options_destroy(options);
  return 0;
}
