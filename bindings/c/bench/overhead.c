/* The C face's side of overhead.py: 1 KiB puts and gets. Usage: overhead DIR put|get|none COUNT */
#include <leveldb/c.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static void make_key(char key[16], unsigned long long number) {
  unsigned long long mixed = number * 0x9e3779b97f4a7c15ULL;
  memcpy(key, "user", 4);
  for (int at = 0; at < 12; at++) key[4 + at] = (char)('a' + (mixed >> (5 * at) & 15));
}

int main(int argc, char** argv) {
  if (argc != 4) return 2;
  char value[1024], *err = NULL;
  memset(value, 'v', sizeof value);
  leveldb_options_t* options = leveldb_options_create();
  leveldb_options_set_create_if_missing(options, 1);
  leveldb_t* db = leveldb_open(options, argv[1], &err);
  leveldb_readoptions_t* reading = leveldb_readoptions_create();
  leveldb_writeoptions_t* writing = leveldb_writeoptions_create();
  long count = atol(argv[3]);
  /* Made beforehand: only the calls are measured. */
  char(*keys)[16] = malloc(sizeof *keys * (size_t)(count + 1));
  for (long n = 0; n < count; n++) make_key(keys[n], (unsigned long long)n);
  size_t bytes = 0, len;
  struct timespec begun, ended;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &begun);
  if (strcmp(argv[2], "put") == 0) {
    for (long n = 0; n < count && err == NULL; n++) {
      leveldb_put(db, writing, keys[n], sizeof keys[n], value, sizeof value, &err);
    }
  } else if (strcmp(argv[2], "get") == 0) {
    for (long n = 0; n < count && err == NULL; n++) {
      char* found = leveldb_get(db, reading, keys[n], sizeof keys[n], &len, &err);
      bytes += len;
      leveldb_free(found);
    }
  }
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ended);
  if (err != NULL) return fprintf(stderr, "%s\n", err), 1;
  double ns = (double)(ended.tv_sec - begun.tv_sec) * 1e9 + (double)(ended.tv_nsec - begun.tv_nsec);
  printf("%.1f %zu\n", ns / (double)(count ? count : 1), bytes);
  free(keys);
  leveldb_close(db);
  leveldb_options_destroy(options);
  leveldb_readoptions_destroy(reading);
  leveldb_writeoptions_destroy(writing);
  return 0;
}
