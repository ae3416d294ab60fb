/* Odd paths, numbers at the end of their range, ranges turned around, options that go before the
 * database does. */
#include <cleavedb/c.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <unistd.h>

#include "check.h"

static char* err = NULL;
static leveldb_options_t* options;
static leveldb_readoptions_t* reading;
static leveldb_writeoptions_t* writing;

static void fresh_options(void) {
  leveldb_options_destroy(options);
  options = leveldb_options_create();
  leveldb_options_set_create_if_missing(options, 1);
}

/* Opens, uses and destroys a database; or opening it is refused. */
static int works(const char* path) {
  leveldb_t* db = leveldb_open(options, path, &err);
  if (db == NULL) {
    CHECK(strncmp(err, "Invalid argument: ", 18) == 0 || strncmp(err, "IO error: ", 10) == 0);
    leveldb_free(err);
    err = NULL;
    return 0;
  }
  size_t len;
  leveldb_put(db, writing, "k", 1, "v", 1, &err);
  CHECK_OK(err);
  char* value = leveldb_get(db, reading, "k", 1, &len, &err);
  CHECK(value != NULL && len == 1);
  leveldb_free(value);
  leveldb_compact_range(db, NULL, 0, NULL, 0);
  leveldb_close(db);
  leveldb_repair_db(options, path, &err);
  CHECK_OK(err);
  leveldb_destroy_db(options, path, &err);
  CHECK_OK(err);
  return 1;
}

static void paths(char** argv) {
  CHECK(works(below(argv, "\xd0\xb4\xd0\xb1 \xe6\x95\xb0\xe6\x8d\xae \xf0\x9f\x92\xbe")));
  CHECK(works(below(argv, "\xff\xfe\x01 not UTF-8")));
  CHECK(works(below(argv, "two\nlines\t'\"$(x)")));
  CHECK(works(below(argv, "slash/")));
  CHECK(works(below(argv, "./a//../b")));
  CHECK(works(below(argv, "parents/that/are/not/there")));
  CHECK(mkdir(below(argv, "real"), 0755) == 0 && symlink("real", below(argv, "link")) == 0);
  CHECK(works(below(argv, "link")));
  char here[4096];
  CHECK(getcwd(here, sizeof here) != NULL && chdir(below(argv, "real")) == 0);
  CHECK(works("relative") && works("."));
  CHECK(chdir(here) == 0);
  CHECK(!works(""));
  CHECK(symlink("loop", below(argv, "loop")) == 0 && !works(below(argv, "loop")));
  FILE* file = fopen(below(argv, "file"), "w");
  CHECK(file != NULL && fclose(file) == 0 && !works(below(argv, "file")));
  static char name[4000];
  memset(name, 'n', sizeof name - 1);
  CHECK(!works(below(argv, name)));
  name[255] = 0;
  CHECK(works(below(argv, name)));
  leveldb_repair_db(options, below(argv, "nowhere"), &err);
  CHECK_ERROR(err, "IO error: ");
  leveldb_repair_db(options, below(argv, "real"), &err);
  CHECK_ERROR(err, "NotFound: ");
  leveldb_destroy_db(options, below(argv, "nowhere"), &err);
  CHECK_OK(err);
}

/* LevelDB takes any number. */
static void numbers(char** argv) {
  const size_t numbers[] = {0, 1, (size_t)-1, (size_t)1 << 63, (size_t)1 << 40};
  char path[4096];
  snprintf(path, sizeof path, "%s", below(argv, "numbers"));
  for (int n = 0; n < 5; n++) {
    size_t number = numbers[n];
    for (int which = 0; which < 15; which++) {
      fresh_options();
      leveldb_cache_t* cache = leveldb_cache_create_lru(number);
      leveldb_filterpolicy_t* policy = leveldb_filterpolicy_create_bloom((int)number);
      switch (which) {
        case 0: leveldb_options_set_write_buffer_size(options, number); break;
        case 1: leveldb_options_set_max_open_files(options, (int)number); break;
        case 2: leveldb_options_set_block_size(options, number); break;
        case 3: leveldb_options_set_max_file_size(options, number); break;
        case 4: leveldb_options_set_compression(options, (int)number); break;
        case 5: leveldb_options_set_block_restart_interval(options, (int)number); break;
        case 6: leveldb_options_set_cache(options, cache); break;
        case 7: leveldb_options_set_filter_policy(options, policy); break;
        case 8: cleavedb_options_set_separation_threshold(options, number); break;
        case 9: cleavedb_options_set_max_replay_bytes(options, number); break;
        case 10: cleavedb_options_set_segment_bytes(options, number); break;
        case 11: cleavedb_options_set_durability(options, cleavedb_durability_every, number); break;
        case 12: cleavedb_options_set_durability(options, (int)number, 0); break;
        case 13: cleavedb_options_set_separation(options, (int)number); break;
        default: cleavedb_options_set_value_compression(options, (int)number);
      }
      /* The parts of options may be destroyed before the options are used. */
      leveldb_cache_destroy(cache);
      leveldb_filterpolicy_destroy(policy);
      int worked = works(path);
      CHECK(worked || which >= 8);
    }
  }
  fresh_options();
}

static void tick(int signal) { (void)signal; }

/* Calls that a signal interrupts go on. */
static void interrupts(leveldb_t* db) {
  struct sigaction action;
  memset(&action, 0, sizeof action);
  action.sa_handler = tick;
  CHECK(sigaction(SIGALRM, &action, NULL) == 0);
  struct itimerval every = {{0, 300}, {0, 300}}, never = {{0, 0}, {0, 0}};
  CHECK(setitimer(ITIMER_REAL, &every, NULL) == 0);
  static char value[5000];
  char key[16];
  size_t len;
  for (int n = 0; n < 500; n++) {
    snprintf(key, sizeof key, "i%03d", n);
    leveldb_writeoptions_set_sync(writing, n % 50 == 0);
    leveldb_put(db, writing, key, 4, value, sizeof value, &err);
    CHECK_OK(err);
    char* found = leveldb_get(db, reading, key, 4, &len, &err);
    CHECK(found != NULL && len == sizeof value);
    leveldb_free(found);
  }
  leveldb_compact_range(db, NULL, 0, NULL, 0);
  CHECK(cleavedb_check(db, &err) == 0);
  CHECK(setitimer(ITIMER_REAL, &never, NULL) == 0);
}

static void ranges(leveldb_t* db) {
  const char *starts[] = {"z", "i", "i", NULL}, *limits[] = {"a", "j", "i", "z"};
  size_t lens[] = {1, 1, 1, 0}, limit_lens[] = {1, 1, 1, 1};
  uint64_t sizes[] = {1, 2, 3, 4};
  leveldb_approximate_sizes(db, 4, starts, lens, limits, limit_lens, sizes);
  CHECK(sizes[0] == 0 && sizes[1] > 1000000 && sizes[2] == 0 && sizes[3] >= sizes[1]);
  /* A range that can't be has no size; the others do. */
  lens[0] = (size_t)-1;
  leveldb_approximate_sizes(db, 2, starts, lens, limits, limit_lens, sizes);
  CHECK(sizes[0] == 0 && sizes[1] > 1000000);
  leveldb_compact_range(db, "z", 1, "a", 1);
  leveldb_compact_range(db, "", 0, "", 0);
  leveldb_compact_range(db, NULL, (size_t)-1, NULL, 5);
  leveldb_compact_range(db, "a", (size_t)-1, "b", 1);
  size_t len;
  char* value = leveldb_get(db, reading, "i007", 4, &len, &err);
  CHECK(value != NULL && len == 5000);
  leveldb_free(value);
  leveldb_put(db, writing, NULL, 0, NULL, 0, &err);
  value = leveldb_get(db, reading, NULL, 0, NULL, &err);
  CHECK_OK(err);
  CHECK(value != NULL);
  leveldb_free(value);
  cleavedb_multi_get(NULL, reading, (size_t)-1, starts, lens, (char**)&value, &len, &err);
}

static leveldb_writebatch_t* walked;
static int calls = 0;
static void change_it(void* state, const char* k, size_t klen, const char* v, size_t vlen) {
  CHECK(klen == 1 && vlen == 1 && *k == *v);
  calls++;
  if (state != NULL) leveldb_writebatch_put(walked, "new", 3, "new", 3);
  if (calls == 2) leveldb_writebatch_clear(walked);
  if (calls == 3) leveldb_writebatch_destroy(walked);
}
static void deleted(void* state, const char* k, size_t klen) { (void)state, (void)k, (void)klen; }

/* The functions it calls may change, and destroy, the batch that is walked. */
static void changing_walk(void) {
  walked = leveldb_writebatch_create();
  for (char c = 'a'; c < 'f'; c++) leveldb_writebatch_put(walked, &c, 1, &c, 1);
  leveldb_writebatch_iterate(walked, &calls, change_it, deleted);
  CHECK(calls == 5);
}

/* Two databases share all there is to share, which is destroyed before they are closed. */
static void shared(char** argv) {
  leveldb_cache_t* cache = leveldb_cache_create_lru(1 << 20);
  leveldb_filterpolicy_t* policy = leveldb_filterpolicy_create_bloom(10);
  leveldb_env_t* env = leveldb_create_default_env();
  leveldb_options_t* both = leveldb_options_create();
  leveldb_options_set_create_if_missing(both, 1);
  leveldb_options_set_cache(both, cache);
  leveldb_options_set_filter_policy(both, policy);
  leveldb_options_set_env(both, env);
  leveldb_t *one = leveldb_open(both, below(argv, "one"), &err), *two = NULL;
  CHECK_OK(err);
  two = leveldb_open(both, below(argv, "two"), &err);
  CHECK_OK(err);
  leveldb_options_destroy(both);
  leveldb_cache_destroy(cache);
  leveldb_filterpolicy_destroy(policy);
  leveldb_env_destroy(env);
  for (int round = 0; round < 2; round++) {
    leveldb_put(one, writing, "k", 1, "1", 1, &err);
    leveldb_put(two, writing, "k", 1, "2", 1, &err);
    CHECK_OK(err);
    leveldb_compact_range(one, NULL, 0, NULL, 0);
    leveldb_compact_range(two, NULL, 0, NULL, 0);
  }
  leveldb_close(one);
  size_t len;
  char* value = leveldb_get(two, reading, "k", 1, &len, &err);
  CHECK(value != NULL && *value == '2');
  leveldb_free(value);
  leveldb_close(two);
}

/* Programs read these words of LevelDB's. */
static void words(char** argv) {
  char expected[5000];
  leveldb_options_t* other = leveldb_options_create();
  CHECK(leveldb_open(other, below(argv, "missing"), &err) == NULL);
  snprintf(expected, sizeof expected,
           "Invalid argument: %s: does not exist (create_if_missing is false)",
           below(argv, "missing"));
  CHECK(strcmp(err, expected) == 0);
  leveldb_options_set_error_if_exists(other, 1);
  CHECK(leveldb_open(other, below(argv, "one"), &err) == NULL);
  snprintf(expected, sizeof expected, "Invalid argument: %s: exists (error_if_exists is true)",
           below(argv, "one"));
  CHECK(strcmp(err, expected) == 0);
  leveldb_free(err);
  err = NULL;
  leveldb_options_destroy(other);
}

static void put_file(const char* dir, const char* name) {
  char path[5000];
  snprintf(path, sizeof path, "%s/%s", dir, name);
  FILE* file = fopen(path, "w");
  CHECK(file != NULL && fputs("MANIFEST-000004\n", file) >= 0 && fclose(file) == 0);
}

/* Directories that look like a LevelDB database, and others that do not. */
static void of_leveldb(char** argv) {
  const char* dir = below(argv, "junk");
  CHECK(mkdir(dir, 0700) == 0);
  put_file(dir, "MANIFEST-junk");
  CHECK(works(dir));
  CHECK(mkdir(dir, 0700) != 0);
  dir = below(argv, "no_current");
  CHECK(mkdir(dir, 0700) == 0);
  put_file(dir, "MANIFEST-000004");
  put_file(dir, "000005.ldb");
  CHECK(works(dir));
  put_file(dir, "CURRENT");
  CHECK(!works(dir));
}

int main(int argc, char** argv) {
  (void)argc;
  reading = leveldb_readoptions_create();
  writing = leveldb_writeoptions_create();
  fresh_options();
  paths(argv);
  numbers(argv);
  leveldb_t* db = leveldb_open(options, below(argv, "db"), &err);
  CHECK_OK(err);
  interrupts(db);
  ranges(db);
  leveldb_close(db);
  changing_walk();
  shared(argv);
  words(argv);
  of_leveldb(argv);
  leveldb_options_destroy(options);
  leveldb_readoptions_destroy(reading);
  leveldb_writeoptions_destroy(writing);
  CHECK(cleavedb_open_handles() == 0);
  puts("ok");
  return 0;
}
