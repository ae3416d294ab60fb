// Functions given by the user that are no order, that call the library, that throw.
#include <cleavedb/c.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <stdexcept>

#include "check.h"

static char* err = nullptr;
static leveldb_readoptions_t* reading;
static leveldb_writeoptions_t* writing;

enum Order { Right, Random, Greater, Less, Equal, Sometimes, Extreme, Throws, Orders };
static Order order = Right;
static unsigned long long seed = 1;

static int compare(void*, const char* a, size_t alen, const char* b, size_t blen) {
  int right = memcmp(a, b, alen < blen ? alen : blen);
  if (right == 0) right = (alen > blen) - (alen < blen);
  // It may use what is not calling it.
  leveldb_readoptions_destroy(leveldb_readoptions_create());
  switch (order) {
    case Random: return static_cast<int>(next_random(&seed) % 3) - 1;
    case Greater: return 1;
    case Less: return -1;
    case Equal: return 0;
    case Sometimes: return next_random(&seed) % 10 ? right : -right;
    case Extreme: return right < 0 ? -2147483647 - 1 : right > 0 ? 2147483647 : 0;
    case Throws: throw std::runtime_error("on purpose");
    default: return right;
  }
}
static const char* name(void*) { return "of the test"; }
static void destructor(void* state) {
  ++*static_cast<int*>(state);
  leveldb_options_destroy(leveldb_options_create());
}

static leveldb_t* open(const char* path, leveldb_options_t* options) {
  leveldb_t* db = leveldb_open(options, path, &err);
  CHECK_OK(err);
  return db;
}

// No answer is right or wrong then, but every call returns, and the host process lives.
static void use(leveldb_t* db) {
  char key[16], value[1500];
  size_t len;
  memset(value, 'v', sizeof value);
  for (int n = 0; n < 500; n++) {
    snprintf(key, sizeof key, "key%04u", next_random(&seed) % 400);
    leveldb_put(db, writing, key, 7, value, next_random(&seed) % sizeof value, &err);
    leveldb_free(leveldb_get(db, reading, key, 7, &len, &err));
  }
  leveldb_iterator_t* iter = leveldb_create_iterator(db, reading);
  int steps = 0;
  leveldb_iter_seek_to_first(iter);
  for (; leveldb_iter_valid(iter) && steps < 2000; steps++) leveldb_iter_next(iter);
  leveldb_iter_seek_to_last(iter);
  for (; leveldb_iter_valid(iter) && steps < 4000; steps++) leveldb_iter_prev(iter);
  leveldb_iter_seek(iter, "key02", 5);
  leveldb_iter_prev(iter);
  leveldb_iter_next(iter);
  cleavedb_iter_seek_for_prev(iter, "key02", 5);
  leveldb_iter_destroy(iter);
  const char *start = "key01", *limit = "key03";
  uint64_t size;
  len = 5;
  leveldb_approximate_sizes(db, 1, &start, &len, &limit, &len, &size);
  leveldb_compact_range(db, nullptr, 0, nullptr, 0);
  leveldb_free(err);
  err = nullptr;
}

static void orders(char** argv) {
  for (int which = Random; which < Throws; which++) {
    char path[4096];
    snprintf(path, sizeof path, "%s%d", below(argv, "order"), which);
    int destroyed = 0;
    leveldb_comparator_t* comparator =
        leveldb_comparator_create(&destroyed, destructor, compare, name);
    leveldb_options_t* options = leveldb_options_create();
    leveldb_options_set_create_if_missing(options, 1);
    leveldb_options_set_write_buffer_size(options, 64 << 10);
    leveldb_options_set_comparator(options, comparator);
    leveldb_comparator_destroy(comparator);
    CHECK(destroyed == 0);
    order = static_cast<Order>(which);
    for (int again = 0; again < 2; again++) {
      leveldb_t* db = leveldb_open(options, path, &err);
      use(db);
      leveldb_close(db);
    }
    leveldb_repair_db(options, path, &err);
    leveldb_destroy_db(options, path, &err);
    leveldb_free(err);
    err = nullptr;
    leveldb_options_destroy(options);
    CHECK(destroyed == 1);
  }
}

static void throwing_put(void*, const char*, size_t, const char*, size_t) { throw 7; }
static void deleted(void*, const char*, size_t) {}

// No state of the engine is on the way: the exception goes through, and leaves nothing behind.
static void throw_out_of_a_walk() {
  leveldb_writebatch_t* batch = leveldb_writebatch_create();
  leveldb_writebatch_put(batch, "k", 1, "v", 1);
  int caught = 0;
  try {
    leveldb_writebatch_iterate(batch, nullptr, throwing_put, deleted);
  } catch (int number) {
    caught = number;
  }
  CHECK(caught == 7);
  leveldb_writebatch_destroy(batch);
}

// A comparator that throws ends the program, with a message, and not the database.
static void throw_out_of_a_put(char** argv) {
  leveldb_comparator_t* comparator = leveldb_comparator_create(nullptr, nullptr, compare, name);
  leveldb_options_t* options = leveldb_options_create();
  leveldb_options_set_create_if_missing(options, 1);
  leveldb_options_set_comparator(options, comparator);
  order = Right;
  fflush(nullptr);
  pid_t child = fork();
  if (child == 0) {
    leveldb_t* db = open(below(argv, "throws"), options);
    leveldb_put(db, writing, "a", 1, "1", 1, &err);
    leveldb_put(db, writing, "b", 1, "2", 1, &err);
    CHECK_OK(err);
    order = Throws;
    try {
      leveldb_put(db, writing, "c", 1, "3", 1, &err);
    } catch (...) {
    }
    _exit(0);
  }
  int status = 0;
  CHECK(waitpid(child, &status, 0) == child && WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
  leveldb_t* db = open(below(argv, "throws"), options);
  size_t len;
  char* value = leveldb_get(db, reading, "b", 1, &len, &err);
  CHECK(value != nullptr && len == 1 && *value == '2');
  leveldb_free(value);
  CHECK(cleavedb_check(db, &err) == 0);
  leveldb_close(db);
  leveldb_comparator_destroy(comparator);
  // Made in the order of bytes, and opened in another.
  leveldb_options_t* plain = leveldb_options_create();
  leveldb_options_set_create_if_missing(plain, 1);
  leveldb_close(open(below(argv, "plain"), plain));
  CHECK(leveldb_open(options, below(argv, "plain"), &err) == nullptr);
  CHECK_ERROR(err, "Invalid argument: ");
  leveldb_options_destroy(plain);
  leveldb_options_destroy(options);
}

int main(int, char** argv) {
  reading = leveldb_readoptions_create();
  writing = leveldb_writeoptions_create();
  orders(argv);
  throw_out_of_a_walk();
  throw_out_of_a_put(argv);
  leveldb_readoptions_destroy(reading);
  leveldb_writeoptions_destroy(writing);
  CHECK(cleavedb_open_handles() == 0);
  puts("ok");
  return 0;
}
