/* A dictionary whose keys are looked at all the time and whose long articles seldom are: the tree
 * is kept in memory, so that walks over keys read nothing from disk.
 * Usage: pinned_tree DIRECTORY */
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

int main(int argc, char** argv) {
  if (argc < 2) return 2;
  char path[4096], key[32], article[1200];
  snprintf(path, sizeof path, "%s/dictionary", argv[1]);
  memset(article, 'a', sizeof article);
  char* err = NULL;
  leveldb_options_t* options = leveldb_options_create();
  leveldb_readoptions_t* reading = leveldb_readoptions_create();
  leveldb_writeoptions_t* writing = leveldb_writeoptions_create();
  leveldb_options_set_create_if_missing(options, 1);
  leveldb_t* db = leveldb_open(options, path, &err);
  expect_success(err);
  for (int number = 0; number < 5000; number++) {
    int len = snprintf(key, sizeof key, "word %05d", number);
    leveldb_put(db, writing, key, (size_t)len, article, sizeof article, &err);
  }
  expect_success(err);
  leveldb_compact_range(db, NULL, 0, NULL, 0);
  leveldb_close(db);

  /* The opening loads all tables, if they fit into this much memory. */
  cleavedb_options_set_pin_tree(options, 64 << 20);
  db = leveldb_open(options, path, &err);
  expect_success(err);
  char* stats = leveldb_property_value(db, "leveldb.stats");
  printf("pinned: %s\n", stats != NULL && strstr(stats, "tree in memory: 1 table,") ? "yes" : "no");
  leveldb_free(stats);
  int count = 0;
  leveldb_iterator_t* it = leveldb_create_iterator(db, reading);
  for (leveldb_iter_seek_to_first(it); leveldb_iter_valid(it); leveldb_iter_next(it)) count++;
  leveldb_iter_destroy(it);
  printf("%d words\n", count);

  leveldb_close(db);
  leveldb_readoptions_destroy(reading);
  leveldb_writeoptions_destroy(writing);
  leveldb_options_destroy(options);
  return 0;
}
