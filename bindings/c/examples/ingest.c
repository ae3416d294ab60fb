/* A catalogue is replaced at night by one that another program has prepared.
 * Usage: ingest DIRECTORY */
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
  char path[4096], prepared[4096];
  snprintf(path, sizeof path, "%s/shop", argv[1]);
  snprintf(prepared, sizeof prepared, "%s/catalogue", argv[1]);
  char* err = NULL;
  leveldb_options_t* options = leveldb_options_create();
  leveldb_readoptions_t* reading = leveldb_readoptions_create();
  leveldb_options_set_create_if_missing(options, 1);

  /* This can run anywhere: no database is open. */
  cleavedb_sortedfile_t* file = cleavedb_sortedfile_create(prepared, &err);
  expect_success(err);
  for (int article = 0; article < 1000; article++) {
    char key[32];
    int len = snprintf(key, sizeof key, "article/%05d", article);
    cleavedb_sortedfile_put(file, key, (size_t)len, "a price", 7, &err);
    expect_success(err);
  }
  cleavedb_sortedfile_finish(file, &err);
  expect_success(err);
  cleavedb_sortedfile_destroy(file);

  leveldb_t* db = leveldb_open(options, path, &err);
  expect_success(err);
  cleavedb_keyspace_t* shop = cleavedb_keyspace_open(db, options, "shop", &err);
  expect_success(err);
  const char* paths[] = {prepared};
  uint64_t ingested = cleavedb_ingest(shop, paths, 1, 0, &err);
  expect_success(err);
  printf("%d articles are in the shop\n", (int)ingested);

  cleavedb_keyspace_close(shop);
  leveldb_close(db);
  leveldb_options_destroy(options);
  leveldb_readoptions_destroy(reading);
  return 0;
}
