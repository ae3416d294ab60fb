/* Many threads use one database, and each other's handles, while others destroy them. */
#include <cleavedb/c.h>
#include <pthread.h>

#include "check.h"

enum { THREADS = 8, ROUNDS = 400 };

static leveldb_t* db;
static leveldb_options_t* options;
static leveldb_readoptions_t* reading;
static leveldb_writeoptions_t* writing;
static leveldb_iterator_t* shared_iter;
static leveldb_writebatch_t* shared_batch;
static const leveldb_snapshot_t* shared_snapshot;

static void* work(void* argument) {
  unsigned long long seed = (size_t)argument + 1;
  char key[32], value[3000], *err = NULL;
  memset(value, 'v', sizeof value);
  size_t len;
  for (int n = 0; n < ROUNDS; n++) {
    snprintf(key, sizeof key, "key%04u", next_random(&seed) % 500);
    leveldb_put(db, writing, key, 7, value, next_random(&seed) % sizeof value, &err);
    leveldb_free(leveldb_get(db, reading, key, 7, &len, &err));
    leveldb_writebatch_put(shared_batch, key, 7, "b", 1);
    if (n % 16 == 0) leveldb_write(db, writing, shared_batch, &err);
    if (n % 16 == 0) leveldb_writebatch_clear(shared_batch);
    leveldb_iter_seek(shared_iter, key, 7);
    leveldb_iter_next(shared_iter);
    (void)leveldb_iter_valid(shared_iter);
    leveldb_iterator_t* iter = leveldb_create_iterator(db, reading);
    leveldb_iter_seek(iter, key, 7);
    if (leveldb_iter_valid(iter)) CHECK(leveldb_iter_key(iter, &len) != NULL && len == 7);
    leveldb_iter_destroy(iter);
    leveldb_release_snapshot(db, leveldb_create_snapshot(db));
    leveldb_free(leveldb_property_value(db, "leveldb.stats"));
    if (n == ROUNDS / 2) {
      leveldb_iter_destroy(shared_iter);
      leveldb_writebatch_destroy(shared_batch);
      leveldb_release_snapshot(db, shared_snapshot);
    }
    if (argument == NULL && n == ROUNDS * 3 / 4) leveldb_close(db);
    /* From here on every call fails, and before none did but with what was destroyed. */
    if (err != NULL) CHECK(strncmp(err, "I", 1) == 0);
    leveldb_free(err);
    err = NULL;
  }
  return NULL;
}

int main(int argc, char** argv) {
  (void)argc;
  char* err = NULL;
  options = leveldb_options_create();
  leveldb_options_set_create_if_missing(options, 1);
  leveldb_options_set_write_buffer_size(options, 64 << 10);
  reading = leveldb_readoptions_create();
  writing = leveldb_writeoptions_create();
  for (int round = 0; round < 5; round++) {
    db = leveldb_open(options, below(argv, "db"), &err);
    CHECK_OK(err);
    shared_iter = leveldb_create_iterator(db, reading);
    shared_batch = leveldb_writebatch_create();
    shared_snapshot = leveldb_create_snapshot(db);
    pthread_t threads[THREADS];
    for (size_t n = 0; n < THREADS; n++) pthread_create(&threads[n], NULL, work, (void*)n);
    for (size_t n = 0; n < THREADS; n++) pthread_join(threads[n], NULL);
    CHECK(cleavedb_open_handles() == 3);
  }
  db = leveldb_open(options, below(argv, "db"), &err);
  CHECK_OK(err);
  CHECK(cleavedb_check(db, &err) == 0);
  CHECK_OK(err);
  leveldb_close(db);
  leveldb_options_destroy(options);
  leveldb_readoptions_destroy(reading);
  leveldb_writeoptions_destroy(writing);
  CHECK(cleavedb_open_handles() == 0);
  puts("ok");
  return 0;
}
