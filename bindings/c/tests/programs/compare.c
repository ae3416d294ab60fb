/* Prints what LevelDB's interface answers to a long random program. What it prints is the same for
 * every right implementation: it is run with Debian's libleveldb and with ours.
 * Usage: compare DIR SEED STEPS */
#include <leveldb/c.h>

#include "check.h"

enum { KEYS = 300, SNAPSHOTS = 4 };

static unsigned long long seed;
static leveldb_t* db;
static leveldb_options_t* options;
static leveldb_readoptions_t* reading;
static leveldb_writeoptions_t* writing;
static const leveldb_snapshot_t* snapshots[SNAPSHOTS];
static char* err = NULL;

static unsigned below_n(unsigned n) { return next_random(&seed) % n; }

static unsigned long long hash(const char* bytes, size_t len) {
  unsigned long long sum = 1469598103934665603ULL;
  while (len-- > 0) sum = (sum ^ (unsigned char)*bytes++) * 1099511628211ULL;
  return sum;
}

static char key_bytes[64];
static size_t random_key(void) {
  int len = snprintf(key_bytes, sizeof key_bytes, "%s%u", below_n(4) ? "key" : "other\xff",
                     below_n(KEYS));
  key_bytes[0] += below_n(30) == 0 ? 0x80 : 0;
  return (size_t)len;
}

static char value_bytes[20000];
static size_t random_value(void) {
  size_t len = below_n(10) ? below_n(200) : below_n(sizeof value_bytes);
  memset(value_bytes, (char)below_n(256), len);
  for (size_t n = 0; n < len; n += 1 + below_n(50)) value_bytes[n] = (char)below_n(256);
  return len;
}

static void ended(const char* what) {
  printf("%s %s\n", what, err ? "failed" : "ok");
  leveldb_free(err);
  err = NULL;
}

static void show(const char* what, const char* bytes, size_t len) {
  if (bytes == NULL) printf("%s none\n", what);
  else printf("%s %zu %016llx\n", what, len, hash(bytes, len));
}

static void on_put(void* state, const char* k, size_t klen, const char* v, size_t vlen) {
  printf("%s put %.*s %016llx\n", (const char*)state, (int)klen, k, hash(v, vlen));
}
static void on_delete(void* state, const char* k, size_t klen) {
  printf("%s delete %.*s\n", (const char*)state, (int)klen, k);
}

static void batch(void) {
  leveldb_writebatch_t *batch = leveldb_writebatch_create(), *more = leveldb_writebatch_create();
  for (unsigned n = below_n(8); n > 0; n--) {
    size_t klen = random_key();
    leveldb_writebatch_t* into = below_n(2) ? batch : more;
    if (below_n(3)) leveldb_writebatch_put(into, key_bytes, klen, value_bytes, random_value());
    else leveldb_writebatch_delete(into, key_bytes, klen);
    if (below_n(20) == 0) leveldb_writebatch_clear(into);
  }
  leveldb_writebatch_append(batch, more);
  leveldb_writebatch_iterate(batch, "batch", on_put, on_delete);
  leveldb_write(db, writing, batch, &err);
  ended("write");
  leveldb_writebatch_destroy(batch);
  leveldb_writebatch_destroy(more);
}

static void walk(void) {
  leveldb_iterator_t* iter = leveldb_create_iterator(db, reading);
  printf("new iterator %d\n", leveldb_iter_valid(iter));
  size_t klen = random_key(), vlen;
  switch (below_n(3)) {
    case 0: leveldb_iter_seek_to_first(iter); break;
    case 1: leveldb_iter_seek_to_last(iter); break;
    default: leveldb_iter_seek(iter, key_bytes, klen);
  }
  klen = random_key();
  leveldb_put(db, writing, key_bytes, klen, "unseen", 6, &err);
  for (unsigned n = below_n(60); n > 0 && leveldb_iter_valid(iter); n--) {
    const char* k = leveldb_iter_key(iter, &klen);
    printf("at %.*s ", (int)klen, k);
    const char* v = leveldb_iter_value(iter, &vlen);
    show("value", v, vlen);
    if (below_n(4)) leveldb_iter_next(iter);
    else leveldb_iter_prev(iter);
  }
  leveldb_iter_get_error(iter, &err);
  ended("walk");
  leveldb_iter_destroy(iter);
}

static void snapshot(void) {
  const leveldb_snapshot_t** slot = &snapshots[below_n(SNAPSHOTS)];
  if (*slot != NULL) leveldb_release_snapshot(db, *slot);
  *slot = below_n(3) ? leveldb_create_snapshot(db) : NULL;
  leveldb_readoptions_set_snapshot(reading, NULL);
}

static void reopen(const char* path) {
  for (int n = 0; n < SNAPSHOTS; n++) {
    if (snapshots[n] != NULL) leveldb_release_snapshot(db, snapshots[n]);
    snapshots[n] = NULL;
  }
  leveldb_readoptions_set_snapshot(reading, NULL);
  leveldb_close(db);
  if (below_n(3) == 0) {
    leveldb_repair_db(options, path, &err);
    ended("repair");
  }
  db = leveldb_open(options, path, &err);
  ended("open");
}

static void refusals(char** argv) {
  leveldb_options_t* other = leveldb_options_create();
  leveldb_open(other, below(argv, "nowhere"), &err);
  ended("open what is not there");
  leveldb_options_set_error_if_exists(other, 1);
  leveldb_options_set_create_if_missing(other, 1);
  leveldb_open(other, below(argv, "db"), &err);
  ended("open what exists");
  leveldb_options_destroy(other);
  printf("unknown property %d\n", leveldb_property_value(db, "leveldb.unknown") != NULL);
  char* text = leveldb_property_value(db, "leveldb.stats");
  printf("known property %d\n", text != NULL);
  leveldb_free(text);
}

static void step(const char* path) {
  size_t klen = random_key(), len = 0;
  unsigned what = below_n(200);
  leveldb_writeoptions_set_sync(writing, below_n(100) == 0);
  if (what < 90) {
    leveldb_put(db, writing, key_bytes, klen, value_bytes, random_value(), &err);
    ended("put");
  } else if (what < 110) {
    leveldb_delete(db, writing, key_bytes, klen, &err);
    ended("delete");
  } else if (what < 150) {
    leveldb_readoptions_set_fill_cache(reading, below_n(2));
    char* value = leveldb_get(db, reading, key_bytes, klen, &len, &err);
    show("get", value, len);
    leveldb_free(value);
  } else if (what < 165) {
    batch();
  } else if (what < 180) {
    walk();
  } else if (what < 190) {
    snapshot();
  } else if (what < 197) {
    leveldb_readoptions_set_snapshot(reading, snapshots[below_n(SNAPSHOTS)]);
  } else if (what < 199) {
    leveldb_compact_range(db, NULL, 0, below_n(2) ? key_bytes : NULL, klen);
  } else {
    reopen(path);
  }
}

int main(int argc, char** argv) {
  CHECK(argc == 4);
  static char path[4096];
  snprintf(path, sizeof path, "%s", below(argv, "db"));
  seed = strtoull(argv[2], NULL, 10);
  printf("version %d.%d\n", leveldb_major_version(), leveldb_minor_version());
  options = leveldb_options_create();
  leveldb_options_set_create_if_missing(options, 1);
  leveldb_options_set_write_buffer_size(options, 64 << 10);
  leveldb_filterpolicy_t* policy = leveldb_filterpolicy_create_bloom(10);
  if (seed % 2) leveldb_options_set_filter_policy(options, policy);
  reading = leveldb_readoptions_create();
  writing = leveldb_writeoptions_create();
  db = leveldb_open(options, path, &err);
  ended("open");
  for (long n = atol(argv[3]); n > 0; n--) step(path);
  refusals(argv);
  reopen(path);
  leveldb_iterator_t* iter = leveldb_create_iterator(db, reading);
  for (leveldb_iter_seek_to_first(iter); leveldb_iter_valid(iter); leveldb_iter_next(iter)) {
    size_t klen, vlen;
    const char* k = leveldb_iter_key(iter, &klen);
    const char* v = leveldb_iter_value(iter, &vlen);
    printf("%.*s %016llx\n", (int)klen, k, hash(v, vlen));
  }
  leveldb_iter_destroy(iter);
  leveldb_close(db);
  leveldb_destroy_db(options, path, &err);
  ended("destroy");
  leveldb_options_destroy(options);
  leveldb_readoptions_destroy(reading);
  leveldb_writeoptions_destroy(writing);
  leveldb_filterpolicy_destroy(policy);
  return 0;
}
