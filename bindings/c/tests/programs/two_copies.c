/* Two copies of the library in one process: they know nothing of each other, but of the lock; and
 * what is unloaded leaves nothing behind that is called.
 * Usage: two_copies DIR LIBRARY COPY */
#include <dlfcn.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"

typedef void* (*make_t)(void);
typedef void* (*open_t)(void*, const char*, char**);
typedef void (*set_t)(void*, unsigned char);
typedef void (*end_t)(void*);

typedef struct {
  void* library;
  void* options;
  open_t open;
  end_t close;
} copy_t;

static void* symbol(void* library, const char* name) {
  void* found = dlsym(library, name);
  CHECK(found != NULL);
  return found;
}

static copy_t load(const char* path) {
  copy_t copy;
  copy.library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  CHECK(copy.library != NULL);
  copy.options = ((make_t)symbol(copy.library, "leveldb_options_create"))();
  ((set_t)symbol(copy.library, "leveldb_options_set_create_if_missing"))(copy.options, 1);
  copy.open = (open_t)symbol(copy.library, "leveldb_open");
  copy.close = (end_t)symbol(copy.library, "leveldb_close");
  return copy;
}

static void unload(copy_t copy) {
  ((end_t)symbol(copy.library, "leveldb_options_destroy"))(copy.options);
  CHECK(dlclose(copy.library) == 0);
}

int main(int argc, char** argv) {
  CHECK(argc == 4);
  const char* path = below(argv, "db");
  copy_t one = load(argv[2]), two = load(argv[3]);
  CHECK(one.open != two.open);
  char* err = NULL;
  void* db = one.open(one.options, path, &err);
  CHECK_OK(err);
  for (int n = 0; n < 2; n++) {
    CHECK(two.open(two.options, path, &err) == NULL);
    CHECK(err != NULL && strncmp(err, "IO error: ", 10) == 0);
    free(err);
    err = NULL;
  }
  one.close(db);
  db = two.open(two.options, path, &err);
  CHECK_OK(err);
  two.close(db);
  unload(one);
  unload(two);
  fflush(NULL);
  pid_t child = fork();
  if (child == 0) _exit(0);
  int status = 1;
  CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
  puts("ok");
  return 0;
}
