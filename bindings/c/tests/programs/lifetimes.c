/* Processes and threads come and go: children made by fork, handles that several threads destroy,
 * calls at the end of a thread and of the program. */
#include <cleavedb/c.h>
#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"

/* gcc's own allocator for the address sanitizer keeps its locks over a fork, held or not: a child
 * forked while any other thread allocates can hang in it. So there, forks come before threads. */
#ifdef __SANITIZE_ADDRESS__
enum { FORKS_AMID_THREADS = 0 };
#else
enum { FORKS_AMID_THREADS = 1 };
#endif

enum { CHILDREN = 60, CLOSERS = 4 };

static char* err = NULL;
static leveldb_options_t* options;
static leveldb_writeoptions_t* writing;
static leveldb_t* db;
static char paths[4][4096];
static volatile int stop = 0;

static leveldb_t* open_at(const char* path) {
  leveldb_t* opened = leveldb_open(options, path, &err);
  CHECK_OK(err);
  return opened;
}

static void put(leveldb_t* into, const char* key) {
  leveldb_put(into, writing, key, strlen(key), "value", 5, &err);
  CHECK_OK(err);
}

/* A child that hangs is ended by the signal, and fails. */
static pid_t child(void) {
  fflush(NULL);
  pid_t made = fork();
  CHECK(made >= 0);
  if (made == 0) alarm(60);
  return made;
}

static void ends_well(pid_t who) {
  int status = 1;
  CHECK(waitpid(who, &status, 0) == who);
  CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

/* The other side is told to go on. */
static void tell(const int pipe_to[2]) { CHECK(write(pipe_to[1], "!", 1) == 1); }

/* Waits for that; fails if the other side has ended. */
static void wait_for(const int pipe_from[2]) {
  char byte = 0;
  CHECK(read(pipe_from[0], &byte, 1) == 1);
}

/* A child may open what its parent has closed, also if it was open at the fork, and has databases
 * of its own; what it does at its end leaves the parent's lock alone. */
static void children_open(void) {
  if (FORKS_AMID_THREADS) db = open_at(paths[0]);
  int to_child[2], to_parent[2];
  CHECK(pipe(to_child) == 0 && pipe(to_parent) == 0);
  pid_t who = child();
  CHECK(close(who == 0 ? to_child[1] : to_child[0]) == 0);
  CHECK(close(who == 0 ? to_parent[0] : to_parent[1]) == 0);
  if (who == 0) {
    wait_for(to_child);
    leveldb_t* own = open_at(paths[1]);
    put(own, "of the child");
    leveldb_close(own);
    CHECK(leveldb_open(options, paths[0], &err) == NULL);
    CHECK_ERROR(err, "IO error: ");
    if (FORKS_AMID_THREADS) leveldb_close(db);
    tell(to_parent);
    wait_for(to_child);
    own = open_at(paths[0]);
    put(own, "of the child");
    leveldb_close(own);
    /* Not exit: the leak sanitizer would miss what threads of the parent hold. */
    _exit(0);
  }
  if (!FORKS_AMID_THREADS) db = open_at(paths[0]);
  tell(to_child);
  wait_for(to_parent);
  leveldb_options_t* other = leveldb_options_create();
  CHECK(leveldb_open(other, paths[0], &err) == NULL);
  CHECK_ERROR(err, "IO error: ");
  leveldb_options_destroy(other);
  leveldb_close(db);
  /* The child lives and has copies of all descriptors. */
  leveldb_close(open_at(paths[0]));
  tell(to_child);
  ends_well(who);
  CHECK(close(to_child[1]) == 0 && close(to_parent[0]) == 0);
  db = open_at(paths[0]);
}

static void* make_and_destroy(void* unused) {
  (void)unused;
  while (!stop) {
    leveldb_readoptions_destroy(leveldb_readoptions_create());
    leveldb_writebatch_t* batch = leveldb_writebatch_create();
    leveldb_writebatch_put(batch, "a", 1, "b", 1);
    leveldb_write(db, writing, batch, NULL);
    leveldb_writebatch_destroy(batch);
  }
  return NULL;
}

static void* open_and_close(void* unused) {
  (void)unused;
  while (!stop) leveldb_close(leveldb_open(options, paths[2], NULL));
  return NULL;
}

/* Forking hung a child whenever another thread was in the middle of making or destroying a handle,
 * or of opening a database: the child waited for that thread, which it does not have. */
static void fork_amid_threads(void) {
  pthread_t threads[3];
  pthread_create(&threads[0], NULL, make_and_destroy, NULL);
  pthread_create(&threads[1], NULL, make_and_destroy, NULL);
  pthread_create(&threads[2], NULL, open_and_close, NULL);
  for (int n = 0; n < CHILDREN; n++) {
    pid_t who = child();
    if (who == 0) {
      leveldb_options_t* own = leveldb_options_create();
      leveldb_options_set_create_if_missing(own, 1);
      leveldb_t* opened = leveldb_open(own, paths[3], &err);
      CHECK_OK(err);
      leveldb_close(opened);
      leveldb_options_destroy(own);
      _exit(0);
    }
    ends_well(who);
  }
  stop = 1;
  for (int n = 0; n < 3; n++) pthread_join(threads[n], NULL);
}

static void* close_it(void* it) {
  leveldb_close(it);
  return NULL;
}

static void closed_by_many(void) {
  pthread_t threads[CLOSERS];
  for (int round = 0; round < 20; round++) {
    leveldb_t* shared = open_at(paths[1]);
    for (int n = 0; n < CLOSERS; n++) pthread_create(&threads[n], NULL, close_it, shared);
    for (int n = 0; n < CLOSERS; n++) pthread_join(threads[n], NULL);
  }
}

static void at_end_of_thread(void* it) { put(it, "last words"); }
static void* set_key(void* key) {
  put(db, "first words");
  pthread_setspecific(*(pthread_key_t*)key, db);
  return NULL;
}

static void at_end_of_program(void) {
  put(db, "good bye");
  leveldb_close(db);
  leveldb_options_destroy(options);
  leveldb_writeoptions_destroy(writing);
  CHECK(cleavedb_open_handles() == 0);
}

int main(int argc, char** argv) {
  (void)argc;
  const char* names[4] = {"db", "other", "again", "of children"};
  for (int n = 0; n < 4; n++) snprintf(paths[n], sizeof paths[n], "%s", below(argv, names[n]));
  options = leveldb_options_create();
  leveldb_options_set_create_if_missing(options, 1);
  writing = leveldb_writeoptions_create();
  children_open();
  if (FORKS_AMID_THREADS) fork_amid_threads();
  closed_by_many();
  pthread_key_t key;
  pthread_t thread;
  CHECK(pthread_key_create(&key, at_end_of_thread) == 0);
  pthread_create(&thread, NULL, set_key, &key);
  pthread_join(thread, NULL);
  puts("ok");
  atexit(at_end_of_program);
  return 0;
}
