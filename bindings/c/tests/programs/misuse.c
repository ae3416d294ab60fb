/* Misuse of the interface ends in an error, or has no effect, and never ends in a crash. */
#include <cleavedb/c.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"

static char* err = NULL;

static void destroy_all(void* db, void* it, void* batch, void* o, void* r, void* w, void* s) {
  leveldb_iter_destroy(it);
  leveldb_writebatch_destroy(batch);
  leveldb_release_snapshot(db, s);
  leveldb_close(db);
  leveldb_options_destroy(o);
  leveldb_readoptions_destroy(r);
  leveldb_writeoptions_destroy(w);
}

/* Calls everything there is with these; nothing of it may work. */
static void call_all(leveldb_t* db, leveldb_iterator_t* it, leveldb_writebatch_t* batch,
                     leveldb_options_t* o, leveldb_readoptions_t* r, leveldb_writeoptions_t* w,
                     leveldb_snapshot_t* s, cleavedb_keyspace_t* ks, cleavedb_transaction_t* t) {
  size_t len = 5;
  uint64_t size = 5;
  const char* key = "k";
  CHECK(leveldb_open(o, "/nowhere", &err) == NULL);
  CHECK_ERROR(err, "Invalid argument: ");
  leveldb_put(db, w, "k", 1, "v", 1, &err);
  CHECK_ERROR(err, "Invalid argument: ");
  leveldb_delete(db, w, "k", 1, &err);
  CHECK_ERROR(err, "Invalid argument: ");
  leveldb_write(db, w, batch, &err);
  CHECK_ERROR(err, "Invalid argument: ");
  CHECK(leveldb_get(db, r, "k", 1, &len, &err) == NULL && len == 0);
  CHECK_ERROR(err, "Invalid argument: ");
  CHECK(leveldb_create_snapshot(db) == NULL);
  CHECK(leveldb_property_value(db, "leveldb.stats") == NULL);
  len = 1;
  leveldb_approximate_sizes(db, 1, &key, &len, &key, &len, &size);
  CHECK(size == 0);
  leveldb_approximate_sizes(db, -1, NULL, NULL, NULL, NULL, NULL);
  leveldb_compact_range(db, NULL, 0, NULL, 0);
  leveldb_destroy_db(o, "/nowhere", &err);
  CHECK_ERROR(err, "Invalid argument: ");
  leveldb_repair_db(o, "/nowhere", &err);
  CHECK_ERROR(err, "Invalid argument: ");
  leveldb_iterator_t* broken = leveldb_create_iterator(db, r);
  leveldb_iter_seek_to_first(broken);
  CHECK(!leveldb_iter_valid(broken));
  leveldb_iter_get_error(broken, &err);
  CHECK_ERROR(err, "Invalid argument: ");
  leveldb_iter_destroy(broken);
  leveldb_iter_seek_to_first(it);
  leveldb_iter_seek_to_last(it);
  leveldb_iter_seek(it, "k", 1);
  leveldb_iter_next(it);
  leveldb_iter_prev(it);
  CHECK(!leveldb_iter_valid(it));
  CHECK(leveldb_iter_key(it, &len) == NULL && len == 0);
  CHECK(leveldb_iter_value(it, NULL) == NULL);
  leveldb_iter_get_error(it, &err);
  CHECK_ERROR(err, "Invalid argument: ");
  leveldb_iter_get_error(it, NULL);
  leveldb_writebatch_clear(batch);
  leveldb_writebatch_put(batch, "k", 1, "v", 1);
  leveldb_writebatch_delete(batch, "k", 1);
  leveldb_writebatch_iterate(batch, NULL, NULL, NULL);
  leveldb_writebatch_append(batch, batch);
  leveldb_options_set_create_if_missing(o, 1);
  leveldb_options_set_cache(o, (leveldb_cache_t*)db);
  leveldb_options_set_comparator(o, (leveldb_comparator_t*)db);
  leveldb_options_set_filter_policy(o, (leveldb_filterpolicy_t*)db);
  leveldb_readoptions_set_snapshot(r, s);
  leveldb_writeoptions_set_sync(w, 1);
  cleavedb_put(ks, w, "k", 1, "v", 1, &err);
  CHECK_ERROR(err, "Invalid argument: ");
  CHECK(cleavedb_keyspace_open(db, NULL, "x", &err) == NULL);
  CHECK_ERROR(err, "Invalid argument: ");
  char *value = (char*)1, *error = NULL;
  cleavedb_multi_get(ks, r, 1, &key, &len, &value, &len, &error);
  CHECK(value == NULL);
  CHECK_ERROR(error, "Invalid argument: ");
  cleavedb_writebatch_put(batch, ks, "k", 1, "v", 1);
  CHECK(!cleavedb_put_if_absent(ks, w, "k", 1, "v", 1, &size, &value, &len, &err) && size == 0);
  CHECK_ERROR(err, "Invalid argument: ");
  CHECK(!cleavedb_compare_and_delete(ks, w, "k", 1, "v", 1, NULL, NULL, NULL, &err));
  CHECK_ERROR(err, "Invalid argument: ");
  CHECK(cleavedb_get_versioned(ks, r, "k", 1, &len, &size, &err) == NULL);
  CHECK_ERROR(err, "Invalid argument: ");
  cleavedb_put_expiring(ks, w, "k", 1, "v", 1, 5, &err);
  CHECK_ERROR(err, "Invalid argument: ");
  CHECK(cleavedb_ttl(ks, r, "k", 1, &size, &err) == 0 && size == 0);
  CHECK_ERROR(err, "Invalid argument: ");
  CHECK(cleavedb_expire(ks, w, "k", 1, 5, &err) == 0);
  CHECK_ERROR(err, "Invalid argument: ");
  cleavedb_options_set_default_ttl(o, 5);
  cleavedb_writebatch_require_absent(batch, ks, "k", 1);
  CHECK(cleavedb_transaction_begin(db, &err) == NULL);
  CHECK_ERROR(err, "Invalid argument: ");
  CHECK(cleavedb_transaction_get(t, ks, r, "k", 1, &len, &err) == NULL);
  CHECK_ERROR(err, "Invalid argument: ");
  broken = cleavedb_transaction_create_iterator(t, ks, r);
  leveldb_iter_get_error(broken, &err);
  CHECK_ERROR(err, "Invalid argument: ");
  leveldb_iter_destroy(broken);
  cleavedb_transaction_put(t, ks, "k", 1, "v", 1, &err);
  CHECK_ERROR(err, "Invalid argument: ");
  CHECK(cleavedb_transaction_savepoint(t, &err) == 0);
  CHECK_ERROR(err, "Invalid argument: ");
  cleavedb_transaction_rollback_to(t, 1, &err);
  CHECK_ERROR(err, "Invalid argument: ");
  cleavedb_transaction_commit(t, w, &err);
  CHECK_ERROR(err, "Invalid argument: ");
  cleavedb_transaction_destroy(t);
  CHECK(cleavedb_stats_json(db) == NULL);
  CHECK(cleavedb_check(db, &err) == 0);
  CHECK_ERROR(err, "Invalid argument: ");
  destroy_all(db, it, batch, o, r, w, s);
  cleavedb_keyspace_close(ks);
}

static void wrong_lengths(leveldb_t* db, leveldb_writeoptions_t* w, leveldb_readoptions_t* r) {
  size_t len;
  const size_t lengths[] = {(size_t)-1, (size_t)1 << 63, ((size_t)1 << 63) - 1, (64 << 10) + 1};
  for (int n = 0; n < 4; n++) {
    leveldb_put(db, w, "k", lengths[n], "v", 1, &err);
    CHECK_ERROR(err, "Invalid argument: ");
    CHECK(leveldb_get(db, r, "k", lengths[n], &len, &err) == NULL);
    CHECK_ERROR(err, "Invalid argument: ");
    leveldb_writebatch_t* batch = leveldb_writebatch_create();
    leveldb_writebatch_delete(batch, "k", lengths[n]);
    leveldb_write(db, w, batch, &err);
    CHECK_ERROR(err, "Invalid argument: ");
    leveldb_writebatch_clear(batch);
    leveldb_write(db, w, batch, &err);
    CHECK_OK(err);
    leveldb_writebatch_destroy(batch);
  }
  leveldb_put(db, w, "k", 1, "v", (size_t)-1, &err);
  CHECK_ERROR(err, "Invalid argument: ");
  leveldb_put(db, w, NULL, 1, "v", 1, &err);
  CHECK_ERROR(err, "Invalid argument: ");
  leveldb_put(db, w, "k", 1, NULL, 1, &err);
  CHECK_ERROR(err, "Invalid argument: ");
  leveldb_put(db, w, "k", 1, NULL, 0, &err);
  CHECK_OK(err);
  leveldb_put(db, w, "k", (size_t)-1, "v", 1, NULL);
  CHECK(leveldb_open(NULL, NULL, NULL) == NULL);
  CHECK(leveldb_property_value(db, NULL) == NULL);
  CHECK(leveldb_property_value(db, "\xff\xfe") == NULL);
  CHECK(leveldb_comparator_create(NULL, NULL, NULL, NULL) == NULL);
  CHECK(leveldb_filterpolicy_create(NULL, NULL, NULL, NULL, NULL) == NULL);
}

static void outlive_the_database(leveldb_options_t* o, const char* path) {
  leveldb_t* db = leveldb_open(o, path, &err);
  CHECK_OK(err);
  leveldb_readoptions_t* r = leveldb_readoptions_create();
  leveldb_writeoptions_t* w = leveldb_writeoptions_create();
  leveldb_put(db, w, "a", 1, "1", 1, &err);
  leveldb_put(db, w, "b", 1, "2", 1, &err);
  CHECK_OK(err);
  const leveldb_snapshot_t* s = leveldb_create_snapshot(db);
  leveldb_iterator_t* it = leveldb_create_iterator(db, r);
  cleavedb_keyspace_t* ks = cleavedb_keyspace_open(db, NULL, "other", &err);
  leveldb_iter_seek_to_first(it);
  leveldb_close(db);
  leveldb_close(db);
  leveldb_t* again = leveldb_open(o, path, &err);
  CHECK_OK(err);
  leveldb_iter_next(it);
  leveldb_iter_seek(it, "a", 1);
  CHECK(!leveldb_iter_valid(it));
  leveldb_iter_get_error(it, &err);
  CHECK_ERROR(err, "IO error: ");
  cleavedb_put(ks, w, "k", 1, "v", 1, &err);
  CHECK_ERROR(err, "IO error: ");
  size_t len;
  leveldb_readoptions_set_snapshot(r, s);
  CHECK(leveldb_get(again, r, "a", 1, &len, &err) == NULL);
  CHECK_ERROR(err, "Invalid argument: ");
  leveldb_release_snapshot(db, s);
  leveldb_release_snapshot(again, s);
  CHECK(leveldb_get(again, r, "a", 1, &len, &err) == NULL);
  CHECK_ERROR(err, "Invalid argument: ");
  leveldb_readoptions_set_snapshot(r, NULL);
  char* value = leveldb_get(again, r, "a", 1, &len, &err);
  CHECK(value != NULL && len == 1 && value[0] == '1');
  leveldb_free(value);
  leveldb_close(again);
  leveldb_iter_destroy(it);
  leveldb_iter_destroy(it);
  cleavedb_keyspace_close(ks);
  leveldb_readoptions_destroy(r);
  leveldb_writeoptions_destroy(w);
}

static void fork_with(leveldb_options_t* o, const char* path) {
  leveldb_t* db = leveldb_open(o, path, &err);
  CHECK_OK(err);
  leveldb_writeoptions_t* w = leveldb_writeoptions_create();
  leveldb_readoptions_t* r = leveldb_readoptions_create();
  leveldb_iterator_t* it = leveldb_create_iterator(db, r);
  cleavedb_transaction_t* t = cleavedb_transaction_begin(db, &err);
  leveldb_put(db, w, "f", 1, "parent", 6, &err);
  CHECK_OK(err);
  fflush(NULL);
  pid_t child = fork();
  if (child == 0) {
    leveldb_put(db, w, "f", 1, "child", 5, &err);
    CHECK_ERROR(err, "IO error: ");
    leveldb_iter_seek_to_first(it);
    CHECK(!leveldb_iter_valid(it));
    CHECK(leveldb_create_snapshot(db) == NULL);
    leveldb_iter_destroy(it);
    cleavedb_transaction_commit(t, w, &err);
    CHECK_ERROR(err, "IO error: ");
    cleavedb_transaction_destroy(t);
    leveldb_close(db);
    _exit(0);
  }
  int status = 1;
  CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
  leveldb_put(db, w, "g", 1, "parent", 6, &err);
  CHECK_OK(err);
  cleavedb_transaction_commit(t, w, &err);
  CHECK_OK(err);
  cleavedb_transaction_destroy(t);
  leveldb_iter_destroy(it);
  leveldb_readoptions_destroy(r);
  leveldb_writeoptions_destroy(w);
  leveldb_close(db);
}

/* Without a free handle, what was created was null with no error, so that a program that looked at
 * the error took it for a success: the object was made, and its handle could not be. */
static void use_up_handles(const char* path) {
  leveldb_options_t* o = leveldb_options_create();
  size_t count = 0;
  leveldb_cache_t** caches = malloc(((size_t)1 << 20) * sizeof *caches);
  CHECK(caches != NULL);
  while ((caches[count] = leveldb_cache_create_lru(1)) != NULL) count++;
  CHECK(cleavedb_open_handles() == count + 1);
  CHECK(leveldb_open(o, path, &err) == NULL);
  CHECK(err != NULL && strstr(err, "cleavedb_open_handles") != NULL);
  CHECK_ERROR(err, "IO error: ");
  leveldb_cache_destroy(caches[0]);
  leveldb_t* db = leveldb_open(o, path, &err);
  CHECK_OK(err);
  CHECK(leveldb_create_snapshot(db) == NULL);
  CHECK(cleavedb_transaction_begin(db, &err) == NULL);
  CHECK_ERROR(err, "IO error: ");
  leveldb_close(db);
  for (size_t n = 1; n < count; n++) leveldb_cache_destroy(caches[n]);
  free(caches);
  leveldb_options_destroy(o);
  CHECK(cleavedb_open_handles() == 0);
}

int main(int argc, char** argv) {
  (void)argc;
  leveldb_options_t* o = leveldb_options_create();
  leveldb_options_set_create_if_missing(o, 1);
  outlive_the_database(o, below(argv, "db"));
  fork_with(o, below(argv, "db"));

  leveldb_t* db = leveldb_open(o, below(argv, "db"), &err);
  CHECK_OK(err);
  leveldb_readoptions_t* r = leveldb_readoptions_create();
  leveldb_writeoptions_t* w = leveldb_writeoptions_create();
  wrong_lengths(db, w, r);
  leveldb_iterator_t* it = leveldb_create_iterator(db, r);
  leveldb_writebatch_t* batch = leveldb_writebatch_create();
  leveldb_snapshot_t* s = (leveldb_snapshot_t*)leveldb_create_snapshot(db);
  cleavedb_keyspace_t* ks = cleavedb_keyspace_open(db, NULL, "ks", &err);
  CHECK_OK(err);
  cleavedb_transaction_t* t = cleavedb_transaction_begin(db, &err);
  CHECK_OK(err);

  /* Null, memory of our own, small and odd numbers, and each other's types. */
  char mine[64] = "not a handle";
  void* wrong[] = {NULL, mine, (void*)1, (void*)16, (void*)-1, (void*)0x400000000000};
  for (int n = 0; n < 6; n++) {
    void* x = wrong[n];
    call_all(x, x, x, x, x, x, x, x, x);
  }
  call_all((void*)it, (void*)batch, (void*)s, (void*)db, (void*)o, (void*)o, (void*)db, (void*)r,
           (void*)ks);
  size_t len;
  leveldb_put(db, w, "still", 5, "here", 4, &err);
  CHECK_OK(err);
  char* value = leveldb_get(db, r, "still", 5, &len, &err);
  CHECK(value != NULL && len == 4);
  leveldb_free(value);

  destroy_all(db, it, batch, o, r, w, s);
  cleavedb_keyspace_close(ks);
  cleavedb_transaction_destroy(t);
  call_all(db, it, batch, o, r, w, s, ks, t);
  CHECK(cleavedb_open_handles() == 0);
  use_up_handles(below(argv, "db"));
  puts("ok");
  return 0;
}
