/* Metrics by day: old days go with one write each.
 * Usage: delete_range DIRECTORY */
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

static int count(cleavedb_keyspace_t* metrics, const leveldb_readoptions_t* reading) {
  leveldb_iterator_t* it = cleavedb_create_iterator(metrics, reading);
  int found = 0;
  for (leveldb_iter_seek_to_first(it); leveldb_iter_valid(it); leveldb_iter_next(it)) found++;
  leveldb_iter_destroy(it);
  return found;
}

int main(int argc, char** argv) {
  if (argc < 2) return 2;
  char path[4096];
  snprintf(path, sizeof path, "%s/metrics", argv[1]);
  char* err = NULL;
  leveldb_options_t* options = leveldb_options_create();
  leveldb_readoptions_t* reading = leveldb_readoptions_create();
  leveldb_writeoptions_t* writing = leveldb_writeoptions_create();
  leveldb_options_set_create_if_missing(options, 1);
  leveldb_t* db = leveldb_open(options, path, &err);
  expect_success(err);
  cleavedb_keyspace_t* metrics = cleavedb_keyspace_open(db, options, "metrics", &err);
  expect_success(err);
  for (int day = 0; day < 10; day++) {
    for (int hour = 0; hour < 24; hour++) {
      char key[32];
      int len = snprintf(key, sizeof key, "%05d/%02d", day, hour);
      cleavedb_put(metrics, writing, key, (size_t)len, "1", 1, &err);
    }
  }
  expect_success(err);
  printf("%d measurements\n", count(metrics, reading));

  /* Everything before day 7. */
  cleavedb_delete_range(metrics, writing, NULL, 0, "00007", 5, &err);
  expect_success(err);
  printf("%d measurements from day 7 on\n", count(metrics, reading));

  /* Day 7 goes and leaves a mark, in one batch: both happen, or neither. */
  leveldb_writebatch_t* batch = leveldb_writebatch_create();
  cleavedb_writebatch_delete_range(batch, metrics, "00007/", 6, "000070", 6);
  cleavedb_writebatch_put(batch, metrics, "00007/", 6, "summary", 7);
  leveldb_write(db, writing, batch, &err);
  expect_success(err);
  leveldb_writebatch_destroy(batch);
  printf("%d measurements and a summary\n", count(metrics, reading) - 1);

  /* All that is left, in a transaction. */
  cleavedb_transaction_t* transaction = cleavedb_transaction_begin(db, &err);
  cleavedb_transaction_delete_range(transaction, metrics, NULL, 0, NULL, 0, &err);
  cleavedb_transaction_commit(transaction, writing, &err);
  expect_success(err);
  cleavedb_transaction_destroy(transaction);
  printf("%d are left\n", count(metrics, reading));

  cleavedb_keyspace_close(metrics);
  leveldb_close(db);
  leveldb_readoptions_destroy(reading);
  leveldb_writeoptions_destroy(writing);
  leveldb_options_destroy(options);
  return 0;
}
