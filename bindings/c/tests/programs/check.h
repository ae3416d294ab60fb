/* Helpers that the test programs share. */
#ifndef CHECK_H_
#define CHECK_H_

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHECK(condition)                                                          \
  do {                                                                            \
    if (!(condition)) {                                                           \
      fprintf(stderr, "%s:%d: %s does not hold\n", __FILE__, __LINE__, #condition); \
      exit(1);                                                                    \
    }                                                                             \
  } while (0)

#define CHECK_OK(err)                                                     \
  do {                                                                    \
    if ((err) != NULL) {                                                  \
      fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, (const char*)(err)); \
      exit(1);                                                            \
    }                                                                     \
  } while (0)

/* Expects an error that begins with `start`, and takes it away. */
#define CHECK_ERROR(err, start)                                                        \
  do {                                                                                 \
    if ((err) == NULL || strncmp((err), (start), strlen(start)) != 0) {                \
      fprintf(stderr, "%s:%d: \"%s\" instead of \"%s\"\n", __FILE__, __LINE__,         \
              (err) ? (const char*)(err) : "no error", (start));                       \
      exit(1);                                                                         \
    }                                                                                  \
    leveldb_free(err);                                                                 \
    (err) = NULL;                                                                      \
  } while (0)

/* A path below the directory that the first argument names. */
static const char* below(char** argv, const char* name) {
  static char path[4096];
  CHECK(argv[1] != NULL);
  snprintf(path, sizeof path, "%s/%s", argv[1], name);
  return path;
}

/* A generator whose numbers are the same everywhere. */
static inline unsigned next_random(unsigned long long* state) {
  *state = *state * 6364136223846793005ULL + 1442695040888963407ULL;
  return (unsigned)(*state >> 33);
}

#endif
