/* A shop is backed up every evening; one morning somebody wants to see what it held days ago.
 * Usage: backup DIRECTORY */
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

static int count_of(leveldb_t* db) {
  leveldb_readoptions_t* reading = leveldb_readoptions_create();
  leveldb_iterator_t* iterator = leveldb_create_iterator(db, reading);
  int count = 0;
  for (leveldb_iter_seek_to_first(iterator); leveldb_iter_valid(iterator);
       leveldb_iter_next(iterator)) {
    count++;
  }
  leveldb_iter_destroy(iterator);
  leveldb_readoptions_destroy(reading);
  return count;
}

int main(int argc, char** argv) {
  if (argc < 2) return 2;
  char path[4096], backup[4096], before[4096];
  snprintf(path, sizeof path, "%s/shop", argv[1]);
  snprintf(backup, sizeof backup, "%s/backup", argv[1]);
  snprintf(before, sizeof before, "%s/shop-before", argv[1]);
  char* err = NULL;
  leveldb_options_t* options = leveldb_options_create();
  leveldb_writeoptions_t* writing = leveldb_writeoptions_create();
  leveldb_options_set_create_if_missing(options, 1);
  leveldb_t* db = leveldb_open(options, path, &err);
  expect_success(err);

  uint64_t points[10];
  for (int day = 0; day < 10; day++) {
    for (int order = 0; order < 100; order++) {
      char key[64];
      int len = snprintf(key, sizeof key, "day %d/order %03d", day, order);
      leveldb_put(db, writing, key, (size_t)len, "one of each", 11, &err);
      expect_success(err);
    }
    /* In the evening: what the day has brought is copied, and the last week is kept. */
    points[day] = cleavedb_backup(db, backup, 7, &err);
    expect_success(err);
  }
  char* list = cleavedb_backup_list_json(backup, &err);
  expect_success(err);
  int kept = 0;
  for (const char* at = list; (at = strstr(at, "\"number\":")) != NULL; at++) kept++;
  leveldb_free(list);
  printf("%d points are kept of 10\n", kept);

  uint64_t problems = cleavedb_backup_verify(backup, 0, &err);
  expect_success(err);
  printf("day 9: %d orders, %s of them sound\n", count_of(db), problems == 0 ? "all" : "not all");

  cleavedb_backup_restore(backup, points[6], before, &err);
  expect_success(err);
  leveldb_t* then = leveldb_open(options, before, &err);
  expect_success(err);
  printf("day 6 is back, beside what goes on: %d orders\n", count_of(then));

  leveldb_close(then);
  leveldb_close(db);
  leveldb_options_destroy(options);
  leveldb_writeoptions_destroy(writing);
  return 0;
}
