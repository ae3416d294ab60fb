/* A mailbox whose compactions drop the letters of closed accounts, and bring what an older program
 * wrote to a new form, without a single write.
 * Usage: compaction_filter DIRECTORY */
#include <cleavedb/c.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Ends the program if a call has failed. */
static void expect_success(const char* err) {
  if (err == NULL) return;
  fprintf(stderr, "%s\n", err);
  exit(1);
}

static const char* name(void* state) {
  (void)state;
  return "example.mailbox_rules";
}

/* Decides about a letter by its key and value alone. The state is the account that is closed. */
static int filter(void* state, const cleavedb_filtered_entry_t* entry, char** val, size_t* vallen) {
  const char* closed = state;
  size_t keylen, len;
  const char* key = cleavedb_filtered_entry_key(entry, &keylen);
  if (keylen >= strlen(closed) && memcmp(key, closed, strlen(closed)) == 0) {
    return cleavedb_filter_drop; /* Known by the key: a value in a segment is not even read. */
  }
  const char* letter = cleavedb_filtered_entry_value(entry, &len);
  /* What is in the new form is kept, because the filter is asked again. */
  if (letter == NULL || len < 3 || memcmp(letter, "v1:", 3) != 0) return cleavedb_filter_keep;
  char* changed = malloc(len);
  if (changed == NULL) return cleavedb_filter_keep;
  memcpy(changed, letter, len);
  changed[1] = '2';
  *val = changed;
  *vallen = len;
  return cleavedb_filter_change;
}

/* Prints how many letters there are, and how many of them are in the new form. */
static void print(const char* what, leveldb_t* db, const leveldb_readoptions_t* reading) {
  int letters = 0, new = 0;
  leveldb_iterator_t* it = leveldb_create_iterator(db, reading);
  for (leveldb_iter_seek_to_first(it); leveldb_iter_valid(it); leveldb_iter_next(it)) {
    size_t len;
    const char* letter = leveldb_iter_value(it, &len);
    letters++;
    new += len >= 3 && memcmp(letter, "v2:", 3) == 0;
  }
  leveldb_iter_destroy(it);
  printf("%s: %d letters, %d in the new form\n", what, letters, new);
}

int main(int argc, char** argv) {
  if (argc < 2) return 2;
  char path[4096], closed[] = "eve/";
  snprintf(path, sizeof path, "%s/mail", argv[1]);
  char* err = NULL;
  leveldb_options_t* options = leveldb_options_create();
  leveldb_readoptions_t* reading = leveldb_readoptions_create();
  leveldb_writeoptions_t* writing = leveldb_writeoptions_create();
  leveldb_options_set_create_if_missing(options, 1);
  cleavedb_options_set_compaction_filter(options, "default", closed, NULL, filter, name);
  leveldb_t* db = leveldb_open(options, path, &err);
  expect_success(err);

  const char* accounts[] = {"ada", "bob", "eve"};
  char key[32], letter[2048] = "v1:Dear ";
  memset(letter + 8, '.', sizeof letter - 8);
  for (int number = 0; number < 300; number++) {
    int len = snprintf(key, sizeof key, "%s/%04d", accounts[number % 3], number);
    leveldb_put(db, writing, key, (size_t)len, letter, sizeof letter, &err);
  }
  expect_success(err);
  print("written", db, reading);

  /* What a snapshot sees never changes, so nothing is filtered beside this one. */
  const leveldb_snapshot_t* before = leveldb_create_snapshot(db);
  leveldb_compact_range(db, NULL, 0, NULL, 0);
  print("beside a snapshot", db, reading);
  leveldb_release_snapshot(db, before);
  leveldb_compact_range(db, NULL, 0, NULL, 0);
  print("compacted", db, reading);

  leveldb_close(db);
  leveldb_options_destroy(options);
  leveldb_readoptions_destroy(reading);
  leveldb_writeoptions_destroy(writing);
  return 0;
}
