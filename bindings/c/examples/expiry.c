/* Sessions of users who log in: each expires by itself, and using one keeps it alive.
 * Usage: expiry DIRECTORY */
#include <cleavedb/c.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { minute = 60 * 1000 };

/* Ends the program if a call has failed. */
static void expect_success(const char* err) {
  if (err == NULL) return;
  fprintf(stderr, "%s\n", err);
  exit(1);
}

/* Prints how long a session stays. */
static void print(cleavedb_keyspace_t* sessions, const char* name) {
  char* err = NULL;
  leveldb_readoptions_t* reading = leveldb_readoptions_create();
  uint64_t left;
  if (!cleavedb_ttl(sessions, reading, name, strlen(name), &left, &err)) {
    expect_success(err);
    printf("%s: none\n", name);
  } else if (left == CLEAVEDB_NEVER) {
    printf("%s: stays\n", name);
  } else {
    printf("%s: %d minutes\n", name, (int)((left + minute / 2) / minute));
  }
  leveldb_readoptions_destroy(reading);
}

int main(int argc, char** argv) {
  if (argc < 2) return 2;
  char path[4096];
  snprintf(path, sizeof path, "%s/sessions", argv[1]);
  char* err = NULL;
  leveldb_options_t* options = leveldb_options_create();
  leveldb_writeoptions_t* writing = leveldb_writeoptions_create();
  leveldb_options_set_create_if_missing(options, 1);
  /* What is put without another time stays half an hour. */
  cleavedb_options_set_default_ttl(options, 30 * minute);
  leveldb_t* db = leveldb_open(options, path, &err);
  expect_success(err);
  cleavedb_keyspace_t* sessions = cleavedb_keyspace_open(db, options, "sessions", &err);
  expect_success(err);

  cleavedb_put(sessions, writing, "ada", 3, "token 1", 7, &err);
  cleavedb_put_expiring(sessions, writing, "bob", 3, "token 2", 7, 5 * minute, &err);
  cleavedb_put_expiring(sessions, writing, "operator", 8, "token 3", 7, CLEAVEDB_NEVER, &err);
  expect_success(err);
  print(sessions, "ada");
  print(sessions, "bob");
  print(sessions, "operator");

  /* Bob is back, and so his session goes on. The value stays as it is. */
  cleavedb_expire(sessions, writing, "bob", 3, 60 * minute, &err);
  cleavedb_persist(sessions, writing, "ada", 3, &err);
  expect_success(err);
  print(sessions, "bob");
  print(sessions, "ada");

  /* In a batch; a time of nothing has passed at once. */
  leveldb_writebatch_t* batch = leveldb_writebatch_create();
  cleavedb_writebatch_put_expiring(batch, sessions, "eve", 3, "token 4", 7, 0);
  cleavedb_writebatch_put_expiring(batch, sessions, "grace", 5, "token 5", 7, minute);
  leveldb_write(db, writing, batch, &err);
  expect_success(err);
  leveldb_writebatch_destroy(batch);
  print(sessions, "eve");
  print(sessions, "grace");

  /* What has expired is absent everywhere, as if it had been deleted at that moment. */
  uint64_t version;
  uint8_t done = cleavedb_put_if_absent(sessions, writing, "eve", 3, "token 6", 7, &version, NULL,
                                        NULL, &err);
  expect_success(err);
  printf("eve logs in: %s\n", done ? "yes" : "no");

  cleavedb_keyspace_close(sessions);
  leveldb_close(db);
  leveldb_writeoptions_destroy(writing);
  leveldb_options_destroy(options);
  return 0;
}
