/* Every function of cleavedb/c.h does what it says; transactions.c is for the conditional writes
 * and transactions, expiry.c for values that expire. */
#include <cleavedb/c.h>
#include <unistd.h>

#include "check.h"

static char* err = NULL;

static void expect(char* value, const size_t* len, const char* expected) {
  CHECK_OK(err);
  if (expected == NULL) {
    CHECK(value == NULL);
  } else {
    CHECK(value != NULL && *len == strlen(expected) && memcmp(value, expected, *len) == 0);
  }
  leveldb_free(value);
}

static void keys_of(leveldb_iterator_t* iter, const char* expected) {
  char found[256] = "";
  size_t len;
  for (leveldb_iter_seek_to_first(iter); leveldb_iter_valid(iter); leveldb_iter_next(iter)) {
    const char* key = leveldb_iter_key(iter, &len);
    snprintf(found + strlen(found), 32, "%.*s ", (int)len, key);
  }
  leveldb_iter_get_error(iter, &err);
  CHECK_OK(err);
  leveldb_iter_destroy(iter);
  CHECK(strcmp(found, expected) == 0);
}

/* Checks that the file of settings that an opening wrote has a line. */
static void has_setting(char** argv, const char* name, const char* line) {
  char path[4096], text[8192];
  snprintf(path, sizeof path, "%s/OPTIONS", below(argv, name));
  FILE* file = fopen(path, "r");
  CHECK(file != NULL);
  text[fread(text, 1, sizeof text - 1, file)] = 0;
  fclose(file);
  CHECK(strstr(text, line) != NULL);
}

/* A number that stands for no setting was passed over where a keyspace was opened with it: only the
 * opening of a database told of it, and the keyspace got the default. */
static void wrong_settings_of_keyspaces(leveldb_t* db) {
  leveldb_options_t* wrong = leveldb_options_create();
  cleavedb_options_set_separation(wrong, 99);
  cleavedb_options_set_value_compression(wrong, 99);
  CHECK(cleavedb_keyspace_open(db, wrong, "wrong", &err) == NULL);
  CHECK(err != NULL && strstr(err, "separation 99 does not exist") != NULL);
  CHECK_ERROR(err, "Invalid argument: ");
  leveldb_options_destroy(wrong);
  size_t count;
  char* names = cleavedb_keyspace_names(db, &count);
  CHECK(count == 1 && strcmp(names, "default") == 0);
  leveldb_free(names);
}

/* The settings of value GC and of conversions reach the database, and impossible ones are told by
 * the opening. */
static void settings_of_gc(char** argv) {
  leveldb_options_t* options = leveldb_options_create();
  leveldb_options_set_create_if_missing(options, 1);
  leveldb_t* db = leveldb_open(options, below(argv, "gc"), &err);
  CHECK_OK(err);
  leveldb_close(db);
  has_setting(argv, "gc", "\ngc.punch = true\n");
  has_setting(argv, "gc", "\ngc.collect_discardable = idle\n");
  cleavedb_options_set_discardable_ratio(options, 0.01);
  CHECK(leveldb_open(options, below(argv, "gc"), &err) == NULL);
  CHECK(err != NULL && strstr(err, "discardable_ratio") != NULL);
  CHECK_ERROR(err, "Invalid argument: ");
  cleavedb_options_set_discardable_ratio(options, 0.25);
  cleavedb_options_set_punch_ratio(options, 1.5);
  CHECK(leveldb_open(options, below(argv, "gc"), &err) == NULL);
  CHECK(err != NULL && strstr(err, "punch_ratio is 1.5, it must be from 0.05 to 1") != NULL);
  CHECK_ERROR(err, "Invalid argument: ");
  cleavedb_options_set_punch_ratio(options, 0.125);
  cleavedb_options_set_collect_discardable(options, cleavedb_collect_discardable_always);
  cleavedb_options_set_gc_memory_bytes(options, 1);
  CHECK(leveldb_open(options, below(argv, "gc"), &err) == NULL);
  CHECK(err != NULL && strstr(err, "memory_bytes") != NULL);
  CHECK_ERROR(err, "Invalid argument: ");
  cleavedb_options_set_gc_memory_bytes(options, 3 << 20);
  cleavedb_options_set_punch(options, 0);
  cleavedb_options_set_convert_in_compactions(options, 0);
  db = leveldb_open(options, below(argv, "gc"), &err);
  CHECK_OK(err);
  wrong_settings_of_keyspaces(db);
  leveldb_close(db);
  has_setting(argv, "gc", "\ngc.discardable_ratio = 0.25\n");
  has_setting(argv, "gc", "\ngc.punch_ratio = 0.125\n");
  has_setting(argv, "gc", "\ngc.collect_discardable = always\n");
  has_setting(argv, "gc", "\ngc.memory_bytes = 3145728\n");
  has_setting(argv, "gc", "\ngc.punch = false\n");
  has_setting(argv, "gc", "convert_in_compactions = false\n");
  cleavedb_options_set_punch(options, 1);
  cleavedb_options_set_collect_discardable(options, cleavedb_collect_discardable_idle);
  db = leveldb_open(options, below(argv, "gc"), &err);
  CHECK_OK(err);
  leveldb_close(db);
  has_setting(argv, "gc", "\ngc.punch = true\n");
  leveldb_options_destroy(options);
}

int main(int argc, char** argv) {
  (void)argc;
  CHECK(cleavedb_version_number() > 0 && cleavedb_open_handles() == 0);
  leveldb_options_t* options = leveldb_options_create();
  leveldb_options_set_create_if_missing(options, 1);
  cleavedb_options_set_durability(options, cleavedb_durability_every, 50);
  cleavedb_options_set_max_replay_bytes(options, 8 << 20);
  cleavedb_options_set_segment_bytes(options, 1 << 20);
  leveldb_t* db = leveldb_open(options, below(argv, "db"), &err);
  CHECK_OK(err);
  leveldb_readoptions_t* reading = leveldb_readoptions_create();
  leveldb_writeoptions_t* writing = leveldb_writeoptions_create();
  size_t len;

  leveldb_options_t* separate = leveldb_options_create();
  cleavedb_options_set_separation(separate, cleavedb_separation_at_flush);
  cleavedb_options_set_separation_threshold(separate, 10);
  cleavedb_options_set_value_compression(separate, cleavedb_codec_lz4);
  leveldb_options_t* together = leveldb_options_create();
  cleavedb_options_set_separation(together, cleavedb_separation_off);
  cleavedb_keyspace_t* names = cleavedb_keyspace_open(db, separate, "names", &err);
  CHECK_OK(err);
  cleavedb_keyspace_t* ages = cleavedb_keyspace_open(db, together, "ages", &err);
  CHECK_OK(err);
  cleavedb_keyspace_t* standard = cleavedb_keyspace_open(db, NULL, "default", &err);
  CHECK_OK(err);
  size_t count = 0;
  char* list = cleavedb_keyspace_names(db, &count);
  CHECK(count == 3 && memcmp(list, "ages\0default\0names", 19) == 0);
  leveldb_free(list);

  cleavedb_put(names, writing, "1", 1, "Ada Lovelace, Countess", 22, &err);
  cleavedb_writeoptions_set_durability(writing, cleavedb_durability_sync, 0);
  cleavedb_put(names, writing, "2", 1, "Grace", 5, &err);
  cleavedb_writeoptions_set_durability(writing, 99, 0);
  cleavedb_writeoptions_set_durability(writing, cleavedb_durability_buffered, 0);
  cleavedb_put(names, writing, "22", 2, "x", 1, &err);
  cleavedb_writeoptions_set_durability(writing, cleavedb_durability_default, 0);
  leveldb_put(db, writing, "1", 1, "standard", 8, &err);
  expect(cleavedb_get(names, reading, "1", 1, &len, &err), &len, "Ada Lovelace, Countess");
  expect(cleavedb_get(standard, reading, "1", 1, &len, &err), &len, "standard");
  expect(cleavedb_get(ages, reading, "1", 1, &len, &err), &len, NULL);

  const leveldb_snapshot_t* before = leveldb_create_snapshot(db);
  leveldb_writebatch_t* batch = leveldb_writebatch_create();
  cleavedb_writebatch_put(batch, ages, "1", 1, "36", 2);
  cleavedb_writebatch_put(batch, names, "3", 1, "Alan", 4);
  cleavedb_writebatch_delete(batch, names, "1", 1);
  leveldb_writebatch_put(batch, "of default", 10, "yes", 3);
  leveldb_write(db, writing, batch, &err);
  CHECK_OK(err);
  leveldb_writebatch_destroy(batch);
  leveldb_readoptions_t* then = leveldb_readoptions_create();
  leveldb_readoptions_set_snapshot(then, before);
  expect(cleavedb_get(ages, then, "1", 1, &len, &err), &len, NULL);
  expect(cleavedb_get(ages, reading, "1", 1, &len, &err), &len, "36");
  expect(leveldb_get(db, reading, "of default", 10, &len, &err), &len, "yes");
  keys_of(cleavedb_create_iterator(names, then), "1 2 22 ");

  const char* keys[3] = {"2", "nothing", "3"};
  size_t key_lens[3] = {1, 7, 1}, lens[3] = {9, 9, 9};
  char *values[3], *errs[3];
  cleavedb_multi_get(names, reading, 3, keys, key_lens, values, lens, errs);
  expect(values[0], &lens[0], "Grace");
  CHECK(values[1] == NULL && lens[1] == 0);
  expect(values[2], &lens[2], "Alan");
  for (int n = 0; n < 3; n++) CHECK_OK(errs[n]);
  /* A key that is too long is an error of its own. */
  key_lens[1] = (64 << 10) + 1;
  keys[1] = calloc(key_lens[1], 1);
  cleavedb_multi_get(names, reading, 3, keys, key_lens, values, lens, errs);
  expect(values[0], &lens[0], "Grace");
  CHECK(values[1] == NULL && errs[1] != NULL && errs[0] == NULL && errs[2] == NULL);
  expect(values[2], &lens[2], "Alan");
  leveldb_free(errs[1]);
  free((void*)keys[1]);

  cleavedb_readoptions_set_read_ahead(reading, 0);
  keys_of(cleavedb_create_iterator(names, reading), "2 22 3 ");
  cleavedb_readoptions_set_lower_bound(reading, "22", 2);
  keys_of(cleavedb_create_iterator(names, reading), "22 3 ");
  cleavedb_readoptions_set_upper_bound(reading, "3", 1);
  keys_of(cleavedb_create_iterator(names, reading), "22 ");
  cleavedb_readoptions_set_lower_bound(reading, NULL, 0);
  cleavedb_readoptions_set_upper_bound(reading, NULL, 0);
  cleavedb_readoptions_set_prefix(reading, "2", 1);
  keys_of(cleavedb_create_iterator(names, reading), "2 22 ");
  cleavedb_readoptions_set_prefix(reading, NULL, 0);
  leveldb_iterator_t* iter = cleavedb_create_iterator(names, reading);
  cleavedb_iter_seek_for_prev(iter, "29", 2);
  CHECK(leveldb_iter_valid(iter) && memcmp(leveldb_iter_key(iter, &len), "22", 2) == 0);
  leveldb_iter_destroy(iter);

  cleavedb_delete(names, writing, "22", 2, &err);
  cleavedb_sync(db, &err);
  cleavedb_flush(db, &err);
  cleavedb_compact(db, &err);
  CHECK(cleavedb_check(db, &err) == 0);
  CHECK_OK(err);
  char* json = cleavedb_stats_json(db);
  CHECK(json != NULL && json[0] == '{' && strstr(json, "\"names\"") != NULL);
  leveldb_free(json);

  /* Two of three values are overwritten. Each log segment keeps some that are not: a segment
     that is wholly dead may be dropped by the background, and this call would not count it. */
  static char large[4096];
  uint32_t noise = 1; /* The values are compressed, and this does not shrink. */
  for (size_t n = 0; n < sizeof large; n++) {
    noise = noise * 1664525 + 1013904223;
    large[n] = (char)(noise >> 24);
  }
  cleavedb_pause_gc(db, 1);
  for (int turn = 0; turn < 2; turn++) {
    for (int n = 0; n < 1000; n++) {
      if (turn == 1 && n % 3 == 0) continue;
      char key[8];
      int klen = snprintf(key, sizeof key, "L%04d", n);
      cleavedb_put(names, writing, key, (size_t)klen, large, sizeof large, &err);
      CHECK_OK(err);
    }
  }
  CHECK(cleavedb_gc(db, &err) >= 600 * sizeof large);
  CHECK_OK(err);
  cleavedb_pause_gc(db, 0);
  cleavedb_reorganize(names, "L", 1, NULL, 0, &err);
  cleavedb_reorganize(names, NULL, 0, NULL, 0, &err);
  cleavedb_wait_idle(db, &err);
  CHECK_OK(err);
  char* space = cleavedb_space_json(db, &err);
  CHECK_OK(err);
  CHECK(space != NULL && space[0] == '{' && strstr(space, "\"allocated") != NULL);
  leveldb_free(space);
  char* large_value = cleavedb_get(names, reading, "L0999", 5, &len, &err);
  CHECK(large_value != NULL && len == sizeof large);
  leveldb_free(large_value);
  CHECK(cleavedb_convert(names, &err) == 0);
  leveldb_options_t* tree_only = leveldb_options_create();
  cleavedb_options_set_separation(tree_only, cleavedb_separation_off);
  cleavedb_keyspace_t* changed = cleavedb_keyspace_open(db, tree_only, "names", &err);
  CHECK_OK(err);
  /* A thousand of these, and one that only the snapshot sees. */
  CHECK(cleavedb_convert(changed, &err) == 1001);
  CHECK(cleavedb_convert(changed, &err) == 0);
  CHECK_OK(err);
  cleavedb_keyspace_close(changed);
  leveldb_options_destroy(tree_only);
  large_value = cleavedb_get(names, reading, "L0998", 5, &len, &err);
  CHECK(large_value != NULL && len == sizeof large);
  leveldb_free(large_value);
  for (int n = 0; n < 1000; n++) {
    char key[8];
    int klen = snprintf(key, sizeof key, "L%04d", n);
    cleavedb_delete(names, writing, key, (size_t)klen, &err);
  }

  cleavedb_checkpoint(db, below(argv, "copy"), &err);
  CHECK_OK(err);
  cleavedb_checkpoint(db, below(argv, "copy"), &err);
  CHECK_ERROR(err, "Invalid argument: ");
  leveldb_options_t* frozen = leveldb_options_create();
  cleavedb_options_set_read_only(frozen, 1);
  leveldb_t* copy = leveldb_open(frozen, below(argv, "copy"), &err);
  CHECK_OK(err);
  expect(leveldb_get(copy, reading, "1", 1, &len, &err), &len, "standard");
  leveldb_put(copy, writing, "1", 1, "x", 1, &err);
  CHECK_ERROR(err, "IO error: ");
  leveldb_close(copy);
  leveldb_options_t* quiet = leveldb_options_create();
  copy = leveldb_open(quiet, below(argv, "copy"), &err);
  CHECK_OK(err);
  CHECK(access(below(argv, "copy/CONTROL"), F_OK) == 0);
  leveldb_close(copy);
  cleavedb_options_set_control_socket(quiet, 0);
  copy = leveldb_open(quiet, below(argv, "copy"), &err);
  CHECK_OK(err);
  CHECK(access(below(argv, "copy/CONTROL"), F_OK) != 0);
  leveldb_close(copy);
  leveldb_options_destroy(quiet);

  /* A reader beside the writer sees what it catches up with. */
  leveldb_options_t* beside = leveldb_options_create();
  cleavedb_options_set_follow(beside, 1);
  cleavedb_options_set_follow_every(beside, UINT64_MAX);
  leveldb_t* follower = leveldb_open(beside, below(argv, "db"), &err);
  CHECK_OK(err);
  leveldb_put(db, writing, "beside", 6, "seen", 4, &err);
  CHECK_OK(err);
  CHECK(leveldb_get(follower, reading, "beside", 6, &len, &err) == NULL);
  CHECK(cleavedb_catch_up(follower, &err) > 0);
  CHECK_OK(err);
  expect(leveldb_get(follower, reading, "beside", 6, &len, &err), &len, "seen");
  leveldb_put(follower, writing, "beside", 6, "x", 1, &err);
  CHECK_ERROR(err, "IO error: ");
  leveldb_close(follower);
  cleavedb_options_set_follow_pinned(beside, 1);
  follower = leveldb_open(beside, below(argv, "db"), &err);
  CHECK_OK(err);
  expect(leveldb_get(follower, reading, "beside", 6, &len, &err), &len, "seen");
  leveldb_close(follower);
  leveldb_options_destroy(beside);

  cleavedb_keyspace_drop(db, "ages", &err);
  CHECK_OK(err);
  cleavedb_put(ages, writing, "1", 1, "x", 1, &err);
  CHECK_ERROR(err, "Invalid argument: ");
  cleavedb_keyspace_drop(db, "default", &err);
  CHECK_ERROR(err, "Invalid argument: ");

  /* Impossible settings are told by the opening. */
  cleavedb_options_set_max_space_amplification(frozen, 0.5);
  CHECK(leveldb_open(frozen, below(argv, "copy"), &err) == NULL);
  CHECK_ERROR(err, "Invalid argument: ");
  cleavedb_options_set_max_space_amplification(frozen, 1.5);
  cleavedb_options_set_settled_space_amplification(frozen, 1.3);
  cleavedb_options_set_space_allowance_bytes(frozen, 1 << 20);
  cleavedb_options_set_automatic_gc(frozen, 0);
  cleavedb_options_set_update_table_bytes(frozen, 1 << 20);
  cleavedb_options_set_pin_tree(frozen, UINT64_MAX);
  CHECK(leveldb_open(frozen, below(argv, "copy"), &err) == NULL);
  CHECK(err != NULL && strstr(err, "pin_tree") != NULL);
  CHECK_ERROR(err, "Invalid argument: ");
  cleavedb_options_set_pin_tree(frozen, 1 << 20);
  cleavedb_options_set_scan_order(frozen, 0);
  cleavedb_options_set_early_compaction(frozen, cleavedb_early_compaction_share, 1.5);
  CHECK(leveldb_open(frozen, below(argv, "copy"), &err) == NULL);
  CHECK(err != NULL && strstr(err, "share:1.5") != NULL);
  CHECK_ERROR(err, "Invalid argument: ");
  cleavedb_options_set_early_compaction(frozen, cleavedb_early_compaction_off, 0);
  copy = leveldb_open(frozen, below(argv, "copy"), &err);
  CHECK_OK(err);
  leveldb_close(copy);
  cleavedb_options_set_early_compaction(frozen, cleavedb_early_compaction_entries, 0);
  CHECK(leveldb_open(frozen, below(argv, "copy"), &err) == NULL);
  CHECK(err != NULL && strstr(err, "entries:0") != NULL);
  CHECK_ERROR(err, "Invalid argument: ");
  cleavedb_options_set_early_compaction(frozen, cleavedb_early_compaction_entries, 1000);
  copy = leveldb_open(frozen, below(argv, "copy"), &err);
  CHECK_OK(err);
  leveldb_close(copy);
  leveldb_options_t* wrong = leveldb_options_create();
  cleavedb_options_set_early_compaction(wrong, cleavedb_early_compaction_entries, 1.5);
  cleavedb_options_set_early_compaction(wrong, cleavedb_early_compaction_off, 0);
  CHECK(leveldb_open(wrong, below(argv, "copy"), &err) == NULL);
  CHECK(err != NULL && strstr(err, "early compaction") != NULL);
  CHECK_ERROR(err, "Invalid argument: ");
  leveldb_options_destroy(wrong);
  cleavedb_options_set_separation(frozen, 7);
  CHECK(leveldb_open(frozen, below(argv, "copy"), &err) == NULL);
  CHECK_ERROR(err, "Invalid argument: ");

  cleavedb_keyspace_close(names);
  cleavedb_keyspace_close(ages);
  cleavedb_keyspace_close(standard);
  leveldb_release_snapshot(db, before);
  leveldb_close(db);
  leveldb_readoptions_destroy(then);
  leveldb_readoptions_destroy(reading);
  leveldb_writeoptions_destroy(writing);
  leveldb_options_destroy(separate);
  leveldb_options_destroy(together);
  leveldb_options_destroy(frozen);
  leveldb_options_destroy(options);
  settings_of_gc(argv);
  CHECK(cleavedb_open_handles() == 0);
  puts("ok");
  return 0;
}
