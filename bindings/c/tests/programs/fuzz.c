/* Random calls, valid and not, from a seed: the host lives on, and so does what is on disk.
 * Usage: fuzz DIR SEED CALLS */
#include <cleavedb/c.h>

#include "check.h"

/* Each type has slots of its own, for calls that are meant well. */
enum { OPTIONS, DB, READING, WRITING, ITER, BATCH, SNAPSHOT, KEYSPACE, TRANSACTION, OTHER, KINDS };
enum { EACH = 3, SLOTS = KINDS * EACH };

static unsigned long long seed;
/* Handles of all types, open, destroyed or never made; each call may get any of them. */
static void* slots[SLOTS];
static char* err;
static char junk[256];
/* Puts and commits that succeeded, values that an iterator showed, and times to live. */
static long written, seen, committed, lived;

static unsigned below_n(unsigned n) { return next_random(&seed) % n; }
static void* any(void) {
  switch (below_n(40)) {
    case 0: return NULL;
    case 1: return junk;
    case 2: return (void*)(size_t)next_random(&seed);
    case 3: return (char*)slots[below_n(SLOTS)] + 16;
    default: return slots[below_n(SLOTS)];
  }
}
/* Mostly of this type. */
static void* of(int kind) {
  return below_n(12) ? slots[kind * EACH + (int)below_n(EACH)] : any();
}
static void keep(int kind, void* made) {
  void** slot = &slots[kind * EACH + (int)below_n(EACH)];
  /* A database that nobody can name any more would stay locked. */
  if (made != NULL) leveldb_close(*slot), *slot = made;
}

/* Mostly a long time; at once, never, or any number. */
static uint64_t a_time(void) {
  switch (below_n(12)) {
    case 0: return 0;
    case 1: return CLEAVEDB_NEVER;
    case 2: return (uint64_t)next_random(&seed) << below_n(40);
    case 3: return below_n(20);
    default: return 3600000;
  }
}
/* Mostly honest lengths: a wrong one below the limit can't be told from a right one. */
static const char* key(size_t* len) {
  static char key[8];
  snprintf(key, sizeof key, "k%03u", below_n(200));
  *len = below_n(50) ? 4 : (size_t)-1 - below_n(1000);
  return below_n(60) ? key : NULL;
}
static const char* value(size_t* len) {
  static char value[4096];
  memset(value, (char)below_n(256), sizeof value);
  *len = below_n(50) ? below_n(sizeof value) : (size_t)1 << (31 + below_n(32));
  return below_n(60) ? value : NULL;
}

static int compare(void* state, const char* a, size_t alen, const char* b, size_t blen) {
  (void)state;
  int order = memcmp(a, b, alen < blen ? alen : blen);
  return order ? order : (alen > blen) - (alen < blen);
}
static const char* name(void* state) { return (void)state, "leveldb.BytewiseComparator"; }
static char* create(void* state, const char* const* keys, const size_t* lens, int n, size_t* len) {
  (void)state, (void)keys, (void)lens;
  *len = (size_t)n % 7;
  return n % 5 ? malloc(8) : NULL;
}
static uint8_t match(void* state, const char* key, size_t len, const char* filter, size_t flen) {
  (void)state, (void)key, (void)len, (void)filter, (void)flen;
  return 1;
}
static void on_put(void* state, const char* k, size_t klen, const char* v, size_t vlen) {
  (void)v, (void)vlen;
  leveldb_writebatch_put(state, k, klen, "again", 5);
}
static void on_delete(void* state, const char* k, size_t klen) {
  leveldb_writebatch_delete(state, k, klen);
}

static void make(const char* path) {
  switch (below_n(19)) {
    case 0: case 1: keep(DB, leveldb_open(of(OPTIONS), path, &err)); break;
    case 2: case 3: keep(ITER, leveldb_create_iterator(of(DB), of(READING))); break;
    case 4: keep(SNAPSHOT, (void*)leveldb_create_snapshot(of(DB))); break;
    case 5: keep(BATCH, leveldb_writebatch_create()); break;
    case 6: keep(READING, leveldb_readoptions_create()); break;
    case 7: keep(WRITING, leveldb_writeoptions_create()); break;
    case 8: keep(OTHER, leveldb_comparator_create(NULL, NULL, compare, name)); break;
    case 9: keep(OTHER, leveldb_filterpolicy_create(NULL, NULL, create, match, name)); break;
    case 10: keep(OTHER, leveldb_filterpolicy_create_bloom((int)below_n(100) - 20)); break;
    case 11: keep(OTHER, leveldb_cache_create_lru(below_n(1 << 20))); break;
    case 12:
      keep(KEYSPACE, cleavedb_keyspace_open(of(DB), of(OPTIONS), below_n(2) ? "a" : "b", &err));
      break;
    case 13: keep(ITER, cleavedb_create_iterator(of(KEYSPACE), of(READING))); break;
    case 14: keep(OTHER, leveldb_create_default_env()); break;
    case 15: case 16: keep(TRANSACTION, cleavedb_transaction_begin(of(DB), &err)); break;
    case 17:
      keep(ITER, cleavedb_transaction_create_iterator(of(TRANSACTION), of(KEYSPACE), of(READING)));
      break;
    default: {
      leveldb_options_t* options = leveldb_options_create();
      leveldb_options_set_create_if_missing(options, 1);
      leveldb_options_set_write_buffer_size(options, 0);
      keep(OPTIONS, options);
    }
  }
}

static void destroy(void* it) {
  switch (below_n(13)) {
    case 0: leveldb_close(it); break;
    case 1: leveldb_iter_destroy(it); break;
    case 2: leveldb_release_snapshot(any(), it); break;
    case 3: leveldb_writebatch_destroy(it); break;
    case 4: leveldb_readoptions_destroy(it); break;
    case 5: leveldb_writeoptions_destroy(it); break;
    case 6: leveldb_comparator_destroy(it); break;
    case 7: leveldb_filterpolicy_destroy(it); break;
    case 8: leveldb_cache_destroy(it); break;
    case 9: cleavedb_keyspace_close(it); break;
    case 10: leveldb_env_destroy(it); break;
    case 11: cleavedb_transaction_destroy(it); break;
    default: leveldb_options_destroy(it);
  }
}

static void use(void) {
  size_t klen, vlen, len = 0;
  const char *k = key(&klen), *v = value(&vlen);
  uint64_t size = 0;
  switch (below_n(47)) {
    case 0: case 1: case 2:
      leveldb_put(of(DB), of(WRITING), k, klen, v, vlen, &err);
      written += err == NULL;
      break;
    case 3: leveldb_delete(of(DB), of(WRITING), k, klen, &err); break;
    case 4: leveldb_write(of(DB), of(WRITING), of(BATCH), &err); break;
    case 5: case 6: leveldb_free(leveldb_get(of(DB), of(READING), k, klen, &len, &err)); break;
    case 7: leveldb_free(leveldb_property_value(of(DB), "leveldb.sstables")); break;
    case 8: leveldb_approximate_sizes(of(DB), 1, &k, &klen, &k, &klen, &size); break;
    case 9: leveldb_compact_range(of(DB), k, klen, NULL, 0); break;
    case 10: leveldb_iter_seek(of(ITER), k, klen); break;
    case 11: leveldb_iter_seek_to_first(of(ITER)); break;
    case 12: leveldb_iter_seek_to_last(of(ITER)); break;
    case 13: leveldb_iter_next(of(ITER)); break;
    case 14: leveldb_iter_prev(of(ITER)); break;
    case 15: {
      const char* found = leveldb_iter_key(of(ITER), &len);
      CHECK(found != NULL || len == 0);
      break;
    }
    case 16: {
      const char* found = leveldb_iter_value(of(ITER), &len);
      if (found != NULL && len > 0) junk[0] = found[len - 1];
      seen += found != NULL;
      break;
    }
    case 17: leveldb_iter_get_error(of(ITER), &err); break;
    case 18: leveldb_writebatch_put(of(BATCH), k, klen, v, vlen); break;
    case 19: leveldb_writebatch_delete(of(BATCH), k, klen); break;
    case 20: leveldb_writebatch_append(of(BATCH), of(BATCH)); break;
    case 21: leveldb_writebatch_clear(of(BATCH)); break;
    case 22: {
      void* batch = of(BATCH);
      if (below_n(8) == 0) leveldb_writebatch_iterate(batch, batch, on_put, on_delete);
      leveldb_writebatch_clear(batch);
      break;
    }
    case 23:
      leveldb_readoptions_set_snapshot(of(READING), below_n(2) ? of(SNAPSHOT) : NULL);
      break;
    case 24: leveldb_options_set_cache(of(OPTIONS), of(OTHER)); break;
    case 25: leveldb_options_set_comparator(of(OPTIONS), of(OTHER)); break;
    case 26: leveldb_options_set_filter_policy(of(OPTIONS), of(OTHER)); break;
    case 27: cleavedb_put(of(KEYSPACE), of(WRITING), k, klen, v, vlen, &err); break;
    case 28: cleavedb_writebatch_put(of(BATCH), of(KEYSPACE), k, klen, v, vlen); break;
    case 29: cleavedb_writebatch_require_value(of(BATCH), of(KEYSPACE), k, klen, v, vlen); break;
    case 30: cleavedb_writebatch_require_absent(of(BATCH), of(KEYSPACE), k, klen); break;
    case 31: {
      char* found = NULL;
      cleavedb_put_if_absent(of(KEYSPACE), of(WRITING), k, klen, v, vlen, &size, &found, &len,
                             &err);
      leveldb_free(found);
      break;
    }
    case 32:
      cleavedb_compare_and_set(of(KEYSPACE), of(WRITING), k, klen, v, vlen, v, vlen, &size, NULL,
                               NULL, &err);
      break;
    case 33: cleavedb_transaction_put(of(TRANSACTION), of(KEYSPACE), k, klen, v, vlen, &err); break;
    case 34:
      leveldb_free(cleavedb_transaction_get(of(TRANSACTION), of(KEYSPACE), of(READING), k, klen,
                                            &len, &err));
      break;
    case 35:
      cleavedb_transaction_commit(of(TRANSACTION), of(WRITING), &err);
      committed += err == NULL;
      break;
    case 36: {
      uint64_t point = cleavedb_transaction_savepoint(of(TRANSACTION), &err);
      cleavedb_transaction_rollback_to(of(TRANSACTION), point - below_n(2), &err);
      break;
    }
    case 37:
      cleavedb_put_expiring(of(KEYSPACE), of(WRITING), k, klen, v, vlen, a_time(), &err);
      break;
    case 38:
      cleavedb_put_expiring_at(of(KEYSPACE), of(WRITING), k, klen, v, vlen, a_time(), &err);
      break;
    case 39:
      lived += cleavedb_ttl(of(KEYSPACE), of(READING), k, klen, below_n(9) ? &size : NULL, &err);
      break;
    case 40: cleavedb_expire(of(KEYSPACE), of(WRITING), k, klen, a_time(), &err); break;
    case 41: cleavedb_expire_at(of(KEYSPACE), of(WRITING), k, klen, a_time(), &err); break;
    case 42: cleavedb_persist(of(KEYSPACE), of(WRITING), k, klen, &err); break;
    case 43:
      if (below_n(2)) {
        cleavedb_writebatch_put_expiring(of(BATCH), of(KEYSPACE), k, klen, v, vlen, a_time());
      } else {
        cleavedb_writebatch_put_expiring_at(of(BATCH), of(KEYSPACE), k, klen, v, vlen, a_time());
      }
      break;
    case 44:
      if (below_n(2)) {
        cleavedb_transaction_put_expiring(of(TRANSACTION), of(KEYSPACE), k, klen, v, vlen,
                                          a_time(), &err);
      } else {
        cleavedb_transaction_put_expiring_at(of(TRANSACTION), of(KEYSPACE), k, klen, v, vlen,
                                             a_time(), &err);
      }
      break;
    case 45: cleavedb_options_set_default_ttl(of(OPTIONS), a_time()); break;
    default: {
      char* found = NULL;
      cleavedb_multi_get(of(KEYSPACE), of(READING), 1, &k, &klen, &found, &len, &err);
      leveldb_free(found);
    }
  }
}

static void rare(const char* path, const char* other) {
  switch (below_n(9)) {
    case 7: cleavedb_convert(of(KEYSPACE), &err); break;
    case 6: cleavedb_gc(of(DB), &err); break;
    case 5: cleavedb_reorganize(of(KEYSPACE), "a", 1, NULL, 0, &err); break;
    case 0: leveldb_repair_db(of(OPTIONS), path, &err); break;
    case 1: leveldb_destroy_db(of(OPTIONS), other, &err); break;
    case 2: cleavedb_checkpoint(of(DB), other, &err); break;
    case 3: cleavedb_keyspace_drop(of(DB), "a", &err); break;
    case 4: cleavedb_flush(of(DB), &err); break;
    default: leveldb_free(cleavedb_stats_json(of(DB)));
  }
}

int main(int argc, char** argv) {
  CHECK(argc == 4);
  static char path[4096], other[4096];
  snprintf(path, sizeof path, "%s", below(argv, "db"));
  snprintf(other, sizeof other, "%s", below(argv, "other"));
  seed = strtoull(argv[2], NULL, 10);
  long calls = atol(argv[3]);
  for (long n = calls; n > 0; n--) {
    unsigned what = below_n(100);
    if (what < 12) make(below_n(5) ? path : other);
    else if (what < 14) destroy(any());
    else if (what < 99) use();
    else rare(path, other);
    leveldb_free(err);
    err = NULL;
  }
  /* Most of it was meant well, or this would be a test of refusals only. */
  CHECK(written > calls / 300 && seen > 0 && committed > 0 && lived > 0);
  for (int n = 0; n < SLOTS; n++) {
    leveldb_close(slots[n]);
    for (int more = 0; more < 100; more++) destroy(slots[n]);
  }
  printf("ok, %ld puts, %ld commits, %ld values seen\n", written, committed, seen);
  return 0;
}
