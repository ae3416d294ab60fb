/* Every function of leveldb/c.h does what it says. */
#include <leveldb/c.h>

#include "check.h"

static leveldb_options_t* options;
static leveldb_readoptions_t* reading;
static leveldb_writeoptions_t* writing;
static char* err = NULL;

static void expect(leveldb_t* db, const leveldb_readoptions_t* how, const char* key,
                   const char* expected) {
  size_t len = 77;
  char* value = leveldb_get(db, how, key, strlen(key), &len, &err);
  CHECK_OK(err);
  if (expected == NULL) {
    CHECK(value == NULL && len == 0);
  } else {
    CHECK(value != NULL && len == strlen(expected) && memcmp(value, expected, len) == 0);
  }
  leveldb_free(value);
}

static void put(leveldb_t* db, const char* key, const char* value) {
  leveldb_put(db, writing, key, strlen(key), value, strlen(value), &err);
  CHECK_OK(err);
}

static void at(leveldb_iterator_t* iter, const char* key, const char* value) {
  size_t klen, vlen;
  CHECK(leveldb_iter_valid(iter) == 1);
  const char* k = leveldb_iter_key(iter, &klen);
  const char* v = leveldb_iter_value(iter, &vlen);
  CHECK(klen == strlen(key) && memcmp(k, key, klen) == 0);
  CHECK(vlen == strlen(value) && memcmp(v, value, vlen) == 0);
  /* They stay until the iterator moves. */
  CHECK(leveldb_iter_key(iter, &klen) == k && leveldb_iter_value(iter, &vlen) == v);
}

static void basics(leveldb_t* db) {
  expect(db, reading, "a", NULL);
  put(db, "a", "1");
  put(db, "b", "");
  expect(db, reading, "a", "1");
  expect(db, reading, "b", "");
  leveldb_delete(db, writing, "a", 1, &err);
  leveldb_delete(db, writing, "never", 5, &err);
  CHECK_OK(err);
  expect(db, reading, "a", NULL);
  leveldb_put(db, writing, "z\0ero", 5, "\0\0", 2, &err);
  CHECK_OK(err);
  size_t len;
  char* value = leveldb_get(db, reading, "z\0ero", 5, &len, &err);
  CHECK(value != NULL && len == 2 && value[0] == 0 && value[1] == 0);
  free(value);
  expect(db, reading, "z", NULL);
  leveldb_put(db, writing, "", 0, "of nothing", 10, &err);
  CHECK_OK(err);
  expect(db, reading, "", "of nothing");
}

static void large_values(leveldb_t* db) {
  size_t size = 3 << 20, len;
  char* large = malloc(size);
  memset(large, 'x', size);
  leveldb_writeoptions_set_sync(writing, 1);
  leveldb_put(db, writing, "large", 5, large, size, &err);
  leveldb_writeoptions_set_sync(writing, 0);
  CHECK_OK(err);
  char* value = leveldb_get(db, reading, "large", 5, &len, &err);
  CHECK(value != NULL && len == size && memcmp(value, large, size) == 0);
  leveldb_free(value);
  free(large);
}

static char seen[64];

static void on_put(void* state, const char* k, size_t klen, const char* v, size_t vlen) {
  CHECK(state == seen);
  snprintf(seen + strlen(seen), 16, "+%.*s=%.*s", (int)klen, k, (int)vlen, v);
}

static void on_delete(void* state, const char* k, size_t klen) {
  CHECK(state == seen);
  snprintf(seen + strlen(seen), 16, "-%.*s", (int)klen, k);
}

static void batches(leveldb_t* db) {
  leveldb_writebatch_t* batch = leveldb_writebatch_create();
  leveldb_writebatch_put(batch, "gone", 4, "x", 1);
  leveldb_writebatch_clear(batch);
  leveldb_writebatch_put(batch, "c", 1, "3", 1);
  leveldb_writebatch_put(batch, "d", 1, "4", 1);
  leveldb_writebatch_delete(batch, "c", 1);
  leveldb_writebatch_t* more = leveldb_writebatch_create();
  leveldb_writebatch_put(more, "e", 1, "5", 1);
  leveldb_writebatch_append(batch, more);
  leveldb_writebatch_append(batch, batch);
  leveldb_writebatch_destroy(more);
  leveldb_writebatch_iterate(batch, seen, on_put, on_delete);
  CHECK(strcmp(seen, "+c=3+d=4-c+e=5+c=3+d=4-c+e=5") == 0);
  leveldb_write(db, writing, batch, &err);
  CHECK_OK(err);
  expect(db, reading, "gone", NULL);
  expect(db, reading, "c", NULL);
  expect(db, reading, "d", "4");
  expect(db, reading, "e", "5");
  leveldb_writebatch_destroy(batch);
}

static void iterators(leveldb_t* db) {
  leveldb_iterator_t* iter = leveldb_create_iterator(db, reading);
  CHECK(!leveldb_iter_valid(iter));
  put(db, "later", "unseen");
  leveldb_iter_seek_to_first(iter);
  at(iter, "", "of nothing");
  leveldb_iter_next(iter);
  at(iter, "b", "");
  leveldb_iter_seek(iter, "d", 1);
  at(iter, "d", "4");
  leveldb_iter_next(iter);
  at(iter, "e", "5");
  leveldb_iter_prev(iter);
  at(iter, "d", "4");
  leveldb_iter_seek(iter, "later", 5);
  CHECK(leveldb_iter_valid(iter));
  size_t len;
  /* To bytes that the iterator itself has lent. */
  leveldb_iter_seek_to_first(iter);
  leveldb_iter_next(iter);
  leveldb_iter_next(iter);
  const char* lent = leveldb_iter_key(iter, &len);
  leveldb_iter_seek(iter, lent, len);
  at(iter, "d", "4");
  lent = leveldb_iter_value(iter, &len);
  leveldb_iter_seek(iter, lent, len);
  CHECK(leveldb_iter_valid(iter));
  leveldb_iter_seek_to_last(iter);
  CHECK(memcmp(leveldb_iter_key(iter, &len), "z\0ero", 5) == 0 && len == 5);
  leveldb_iter_next(iter);
  CHECK(!leveldb_iter_valid(iter));
  leveldb_iter_seek(iter, "zz", 2);
  CHECK(!leveldb_iter_valid(iter));
  leveldb_iter_get_error(iter, &err);
  CHECK_OK(err);
  leveldb_iter_destroy(iter);
}

static void snapshots(leveldb_t* db) {
  put(db, "s", "old");
  const leveldb_snapshot_t* before = leveldb_create_snapshot(db);
  put(db, "s", "new");
  leveldb_readoptions_t* then = leveldb_readoptions_create();
  leveldb_readoptions_set_verify_checksums(then, 1);
  leveldb_readoptions_set_fill_cache(then, 0);
  leveldb_readoptions_set_snapshot(then, before);
  expect(db, then, "s", "old");
  expect(db, reading, "s", "new");
  leveldb_compact_range(db, NULL, 0, NULL, 0);
  expect(db, then, "s", "old");
  leveldb_readoptions_set_snapshot(then, NULL);
  expect(db, then, "s", "new");
  leveldb_release_snapshot(db, before);
  leveldb_readoptions_destroy(then);
}

static void sizes_and_properties(leveldb_t* db) {
  char key[64], value[512];
  for (int n = 0; n < 5000; n++) {
    snprintf(key, sizeof key, "size%06d", n);
    memset(value, 'a' + n % 26, sizeof value);
    leveldb_put(db, writing, key, strlen(key), value, sizeof value, &err);
    CHECK_OK(err);
  }
  leveldb_compact_range(db, "size", 4, "sizf", 4);
  const char* starts[3] = {"size000000", "size002500", "x"};
  const char* limits[3] = {"size002500", "size005000", "y"};
  size_t starts_len[3] = {10, 10, 1}, limits_len[3] = {10, 10, 1};
  uint64_t sizes[3] = {1, 2, 3};
  leveldb_approximate_sizes(db, 3, starts, starts_len, limits, limits_len, sizes);
  CHECK(sizes[0] > 10000 && sizes[1] > 10000 && sizes[2] < sizes[0]);

  long files = 0;
  for (int level = 0; level < 7; level++) {
    snprintf(key, sizeof key, "leveldb.num-files-at-level%d", level);
    char* count = leveldb_property_value(db, key);
    CHECK(count != NULL);
    files += atol(count);
    leveldb_free(count);
  }
  CHECK(files > 0);
  const char* texts[] = {"leveldb.stats", "leveldb.sstables", "leveldb.approximate-memory-usage",
                         "cleavedb.metrics"};
  for (int n = 0; n < 4; n++) {
    char* text = leveldb_property_value(db, texts[n]);
    CHECK(text != NULL && text[0] != 0);
    CHECK(n < 3 || strstr(text, "\ncleavedb_entries_written_total ") != NULL);
    leveldb_free(text);
  }
  const char* unknown[] = {"", "nosuchprop", "leveldb.", "leveldb.num-files-at-level",
                           "leveldb.num-files-at-level7", "leveldb.num-files-at-level+1",
                           "leveldb.num-files-at-level0x", "leveldb.Stats"};
  for (int n = 0; n < 8; n++) CHECK(leveldb_property_value(db, unknown[n]) == NULL);
}

static int destroyed = 0;
static void destroy(void* state) {
  CHECK(state == &destroyed);
  destroyed++;
}
static const char* backwards_name(void* state) { return state ? "backwards" : NULL; }
static int backwards(void* state, const char* a, size_t alen, const char* b, size_t blen) {
  size_t len = alen < blen ? alen : blen;
  int order = memcmp(b, a, len);
  CHECK(state == &destroyed);
  return order ? order : (alen < blen) - (alen > blen);
}

static void comparators(char** argv) {
  leveldb_comparator_t* order =
      leveldb_comparator_create(&destroyed, destroy, backwards, backwards_name);
  leveldb_options_t* other = leveldb_options_create();
  leveldb_options_set_create_if_missing(other, 1);
  leveldb_options_set_comparator(other, order);
  leveldb_t* db = leveldb_open(other, below(argv, "backwards"), &err);
  CHECK_OK(err);
  put(db, "a", "1");
  put(db, "b", "2");
  put(db, "ab", "3");
  leveldb_compact_range(db, NULL, 0, NULL, 0);
  put(db, "c", "4");
  leveldb_iterator_t* iter = leveldb_create_iterator(db, reading);
  leveldb_iter_seek_to_first(iter);
  at(iter, "c", "4");
  leveldb_iter_seek(iter, "aZ", 2);
  at(iter, "a", "1");
  leveldb_iter_destroy(iter);
  leveldb_close(db);
  CHECK(leveldb_open(options, below(argv, "backwards"), &err) == NULL);
  CHECK_ERROR(err, "Invalid argument: ");
  leveldb_repair_db(other, below(argv, "backwards"), &err);
  CHECK_OK(err);
  db = leveldb_open(other, below(argv, "backwards"), &err);
  CHECK_OK(err);
  expect(db, reading, "ab", "3");
  leveldb_close(db);
  leveldb_options_destroy(other);
  CHECK(destroyed == 0);
  leveldb_comparator_destroy(order);
  CHECK(destroyed == 1);
}

static uint8_t answer = 1;
static int created = 0;
static const char* filter_name(void* state) { return (void)state, "of the test"; }
static char* create_filter(void* state, const char* const* keys, const size_t* lengths, int count,
                           size_t* len) {
  (void)state;
  CHECK(count > 0 && keys[0] != NULL && lengths[0] < 100);
  created++;
  *len = 4;
  char* filter = malloc(4);
  memcpy(filter, "fltr", 4);
  return filter;
}
static uint8_t may_match(void* state, const char* key, size_t len, const char* filter,
                         size_t filter_len) {
  (void)state, (void)key, (void)len;
  CHECK(filter_len == 4 && memcmp(filter, "fltr", 4) == 0);
  return answer;
}

static void filters(char** argv) {
  for (int own = 0; own < 2; own++) {
    destroyed = 0;
    leveldb_filterpolicy_t* policy =
        own ? leveldb_filterpolicy_create(&destroyed, destroy, create_filter, may_match,
                                          filter_name)
            : leveldb_filterpolicy_create_bloom(10);
    const char* path = below(argv, own ? "filter1" : "filter0");
    leveldb_options_t* other = leveldb_options_create();
    leveldb_options_set_create_if_missing(other, 1);
    leveldb_options_set_filter_policy(other, policy);
    leveldb_t* db = leveldb_open(other, path, &err);
    CHECK_OK(err);
    put(db, "foo", "foovalue");
    put(db, "bar", "barvalue");
    leveldb_compact_range(db, NULL, 0, NULL, 0);
    expect(db, reading, "foo", "foovalue");
    expect(db, reading, "nothing", NULL);
    if (own) {
      CHECK(created > 0);
      answer = 0;
      expect(db, reading, "foo", NULL);
      answer = 1;
      expect(db, reading, "foo", "foovalue");
    }
    leveldb_close(db);
    /* Without the policy its filters are not asked. */
    answer = 0;
    db = leveldb_open(options, path, &err);
    CHECK_OK(err);
    expect(db, reading, "bar", "barvalue");
    leveldb_close(db);
    answer = 1;
    leveldb_options_destroy(other);
    leveldb_filterpolicy_destroy(policy);
    CHECK(destroyed == own);
  }
}

static void opening(char** argv) {
  leveldb_options_t* other = leveldb_options_create();
  CHECK(leveldb_open(other, below(argv, "nowhere"), &err) == NULL);
  CHECK_ERROR(err, "Invalid argument: ");
  CHECK(leveldb_open(options, below(argv, "db"), &err) == NULL);
  CHECK_ERROR(err, "IO error: ");
  leveldb_options_set_create_if_missing(other, 1);
  leveldb_options_set_error_if_exists(other, 1);
  leveldb_t* db = leveldb_open(other, below(argv, "new"), &err);
  CHECK_OK(err);
  leveldb_close(db);
  CHECK(leveldb_open(other, below(argv, "new"), &err) == NULL);
  /* The next failure frees the message of the one before. */
  CHECK(leveldb_open(other, below(argv, "new"), &err) == NULL);
  CHECK_ERROR(err, "Invalid argument: ");
  leveldb_destroy_db(other, below(argv, "new"), &err);
  CHECK_OK(err);
  leveldb_destroy_db(other, below(argv, "new"), &err);
  CHECK_OK(err);
  leveldb_options_destroy(other);
}

int main(int argc, char** argv) {
  (void)argc;
  CHECK(leveldb_major_version() == 1 && leveldb_minor_version() == 23);
  leveldb_env_t* env = leveldb_create_default_env();
  char* directory = leveldb_env_get_test_directory(env);
  CHECK(directory != NULL && strlen(directory) > 0);
  leveldb_free(directory);
  leveldb_free(NULL);
  leveldb_cache_t* cache = leveldb_cache_create_lru(100000);

  options = leveldb_options_create();
  leveldb_options_set_create_if_missing(options, 1);
  leveldb_options_set_cache(options, cache);
  leveldb_options_set_env(options, env);
  leveldb_options_set_info_log(options, NULL);
  leveldb_options_set_write_buffer_size(options, 100000);
  leveldb_options_set_paranoid_checks(options, 1);
  leveldb_options_set_max_open_files(options, 10);
  leveldb_options_set_block_size(options, 1024);
  leveldb_options_set_block_restart_interval(options, 8);
  leveldb_options_set_max_file_size(options, 3 << 20);
  leveldb_options_set_compression(options, leveldb_no_compression);
  leveldb_options_set_compression(options, leveldb_snappy_compression);
  reading = leveldb_readoptions_create();
  writing = leveldb_writeoptions_create();

  leveldb_t* db = leveldb_open(options, below(argv, "db"), &err);
  CHECK_OK(err);
  opening(argv);
  basics(db);
  large_values(db);
  batches(db);
  iterators(db);
  snapshots(db);
  sizes_and_properties(db);
  leveldb_close(db);
  db = leveldb_open(options, below(argv, "db"), &err);
  CHECK_OK(err);
  expect(db, reading, "d", "4");
  leveldb_close(db);
  leveldb_repair_db(options, below(argv, "db"), &err);
  CHECK_OK(err);
  comparators(argv);
  filters(argv);

  leveldb_writeoptions_destroy(writing);
  leveldb_readoptions_destroy(reading);
  leveldb_options_destroy(options);
  leveldb_cache_destroy(cache);
  leveldb_env_destroy(env);
  puts("ok");
  return 0;
}
