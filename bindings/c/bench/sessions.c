/* Short sessions through LevelDB's C interface: the median time of each kind, in milliseconds.
 * Usage: sessions DIR CYCLES. Sessions are also timed after 10 and after CYCLES writing ones. */
#include <leveldb/c.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static leveldb_options_t* options;
static leveldb_writeoptions_t* writing;

static void check(char* err) {
  if (err != NULL) {
    fprintf(stderr, "%s\n", err);
    exit(1);
  }
}

/* One session, with a put of this number unless it is negative; returns milliseconds. */
static double session(const char* dir, long number) {
  struct timespec begun, ended;
  char *err = NULL, key[32];
  clock_gettime(CLOCK_MONOTONIC, &begun);
  leveldb_t* db = leveldb_open(options, dir, &err);
  check(err);
  if (number >= 0) {
    int length = snprintf(key, sizeof key, "key%09ld", number);
    leveldb_put(db, writing, key, (size_t)length, "value", 5, &err);
    check(err);
  }
  leveldb_close(db);
  clock_gettime(CLOCK_MONOTONIC, &ended);
  return (double)(ended.tv_sec - begun.tv_sec) * 1e3 +
         (double)(ended.tv_nsec - begun.tv_nsec) / 1e6;
}

static int compare(const void* a, const void* b) {
  double left = *(const double*)a, right = *(const double*)b;
  return (left > right) - (left < right);
}

static double median(double* times, long count) {
  qsort(times, (size_t)count, sizeof *times, compare);
  return times[count / 2];
}

enum { RUNS = 41 };

static double without_write(const char* dir) {
  double times[RUNS];
  for (int run = 0; run < RUNS; run++) times[run] = session(dir, -1);
  return median(times, RUNS);
}

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  long cycles = atol(argv[2]);
  char dir[4096];
  double times[RUNS];
  options = leveldb_options_create();
  leveldb_options_set_create_if_missing(options, 1);
  writing = leveldb_writeoptions_create();
  for (int run = 0; run < RUNS; run++) {
    snprintf(dir, sizeof dir, "%s/%d", argv[1], run);
    times[run] = session(dir, -1);
  }
  printf("create %.3f\n", median(times, RUNS));
  printf("open %.3f\n", without_write(dir));
  double* writes = malloc(sizeof *writes * (size_t)cycles);
  for (long cycle = 0; cycle < cycles; cycle++) {
    writes[cycle] = session(dir, cycle);
    if (cycle == 9) printf("open_after_10 %.3f\n", without_write(dir));
  }
  printf("open_after_all %.3f\n", without_write(dir));
  printf("put_last %.3f\n", median(writes + (cycles > 1000 ? cycles - 1000 : 0),
                                   cycles > 1000 ? 1000 : cycles));
  /* The median has sorted them. */
  printf("put_longest %.3f\n", writes[cycles - 1]);
  free(writes);
  leveldb_writeoptions_destroy(writing);
  leveldb_options_destroy(options);
  return 0;
}
