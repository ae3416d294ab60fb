/* LevelDB's own library, for the tests of imports and exports.

   leveldb fill DIR   does what standard input says: "p KEY VALUE" and "d KEY" in hexadecimal, "w"
                      writes the batch, "c" compacts; then prints all pairs as "read" does
   leveldb read DIR   prints all pairs, "KEY<TAB>VALUE" in hexadecimal
   leveldb hold DIR   opens the store, says so, and holds it until standard input ends */

#include <leveldb/c.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MOST (1 << 20)

static void check(char* error) {
  if (error == NULL) return;
  fprintf(stderr, "%s\n", error);
  exit(1);
}

static void print(const char* bytes, size_t length) {
  for (size_t at = 0; at < length; at++) printf("%02x", (unsigned char)bytes[at]);
}

static void print_all(leveldb_t* db) {
  leveldb_readoptions_t* reading = leveldb_readoptions_create();
  leveldb_readoptions_set_verify_checksums(reading, 1);
  leveldb_iterator_t* it = leveldb_create_iterator(db, reading);
  char* error = NULL;
  for (leveldb_iter_seek_to_first(it); leveldb_iter_valid(it); leveldb_iter_next(it)) {
    size_t length;
    const char* bytes = leveldb_iter_key(it, &length);
    print(bytes, length);
    printf("\t");
    bytes = leveldb_iter_value(it, &length);
    print(bytes, length);
    printf("\n");
  }
  leveldb_iter_get_error(it, &error);
  check(error);
  leveldb_iter_destroy(it);
  leveldb_readoptions_destroy(reading);
}

static size_t unhex(const char* text, char* out) {
  size_t length = 0;
  unsigned byte;
  while (sscanf(text + 2 * length, "%2x", &byte) == 1) out[length++] = (char)byte;
  return length;
}

static void fill(leveldb_t* db) {
  static char line[MOST], key[MOST], value[MOST];
  leveldb_writeoptions_t* writing = leveldb_writeoptions_create();
  leveldb_writebatch_t* batch = leveldb_writebatch_create();
  char* error = NULL;
  while (fgets(line, sizeof line, stdin)) {
    line[strcspn(line, "\n")] = 0;
    char* second = line[0] == 'p' ? strchr(line + 2, ' ') : NULL;
    if (second != NULL) *second = 0;
    size_t key_length = line[0] == 'p' || line[0] == 'd' ? unhex(line + 2, key) : 0;
    if (line[0] == 'p') {
      size_t value_length = unhex(second + 1, value);
      leveldb_writebatch_put(batch, key, key_length, value, value_length);
    } else if (line[0] == 'd') {
      leveldb_writebatch_delete(batch, key, key_length);
    } else if (line[0] == 'w') {
      leveldb_write(db, writing, batch, &error);
      check(error);
      leveldb_writebatch_clear(batch);
    } else {
      leveldb_compact_range(db, NULL, 0, NULL, 0);
    }
  }
  leveldb_writebatch_destroy(batch);
  leveldb_writeoptions_destroy(writing);
}

int main(int count, char** arguments) {
  if (count != 3) return 2;
  leveldb_options_t* options = leveldb_options_create();
  leveldb_options_set_create_if_missing(options, strcmp(arguments[1], "read") != 0);
  leveldb_options_set_paranoid_checks(options, 1);
  leveldb_options_set_write_buffer_size(options, 64 << 10);
  leveldb_options_set_block_size(options, 1024);
  char* error = NULL;
  leveldb_t* db = leveldb_open(options, arguments[2], &error);
  check(error);
  if (strcmp(arguments[1], "hold") == 0) {
    printf("open\n");
    fflush(stdout);
    while (getchar() != EOF) continue;
  } else {
    if (strcmp(arguments[1], "fill") == 0) fill(db);
    print_all(db);
  }
  leveldb_close(db);
  leveldb_options_destroy(options);
  return 0;
}
