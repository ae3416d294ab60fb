/* Does one thing to a directory, and says how it ended. Usage: foreign DIR open|repair|destroy */
#include <leveldb/c.h>

#include "check.h"

int main(int argc, char** argv) {
  CHECK(argc == 3);
  char* err = NULL;
  leveldb_options_t* options = leveldb_options_create();
  leveldb_options_set_create_if_missing(options, 1);
  if (strcmp(argv[2], "open") == 0) {
    leveldb_t* db = leveldb_open(options, below(argv, "db"), &err);
    leveldb_writeoptions_t* writing = leveldb_writeoptions_create();
    if (db != NULL) leveldb_put(db, writing, "k", 1, "v", 1, &err);
    if (db != NULL) leveldb_close(db);
    leveldb_writeoptions_destroy(writing);
  } else if (strcmp(argv[2], "repair") == 0) {
    leveldb_repair_db(options, below(argv, "db"), &err);
  } else {
    leveldb_destroy_db(options, below(argv, "db"), &err);
  }
  leveldb_options_destroy(options);
  puts(err ? "refused" : "ok");
  leveldb_free(err);
  return 0;
}
