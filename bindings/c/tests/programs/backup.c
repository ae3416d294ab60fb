/* Backups are made, listed, verified, restored and deleted as cleavedb/c.h says. */
#include <cleavedb/c.h>
#include <stdio.h>
#include <string.h>

#include "check.h"

static char* err = NULL;
static leveldb_options_t* options;
static leveldb_readoptions_t* reading;
static leveldb_writeoptions_t* writing;

static void put(leveldb_t* db, const char* value) {
  leveldb_put(db, writing, "key", 3, value, strlen(value), &err);
  CHECK_OK(err);
}

static void holds(const char* path, const char* expected) {
  leveldb_t* db = leveldb_open(options, path, &err);
  CHECK_OK(err);
  size_t len = 0;
  char* value = leveldb_get(db, reading, "key", 3, &len, &err);
  CHECK_OK(err);
  CHECK(value != NULL && len == strlen(expected) && memcmp(value, expected, len) == 0);
  leveldb_free(value);
  CHECK(cleavedb_check(db, &err) == 0);
  CHECK_OK(err);
  leveldb_close(db);
}

static void lists(const char* backup, const char* part) {
  char* json = cleavedb_backup_list_json(backup, &err);
  CHECK_OK(err);
  CHECK(json != NULL && strstr(json, part) != NULL);
  leveldb_free(json);
}

/* Changes the last byte of a file. */
static void damage(const char* path) {
  FILE* file = fopen(path, "r+b");
  CHECK(file != NULL);
  CHECK(fseek(file, -1, SEEK_END) == 0);
  int byte = fgetc(file);
  CHECK(fseek(file, -1, SEEK_END) == 0 && fputc(byte ^ 1, file) != EOF);
  CHECK(fclose(file) == 0);
}

int main(int argc, char** argv) {
  (void)argc;
  options = leveldb_options_create();
  leveldb_options_set_create_if_missing(options, 1);
  reading = leveldb_readoptions_create();
  writing = leveldb_writeoptions_create();
  char backup[4096], target[4096], description[8192];
  snprintf(backup, sizeof backup, "%s", below(argv, "backup"));
  snprintf(target, sizeof target, "%s", below(argv, "restored"));

  CHECK(cleavedb_backup_list_json(backup, &err) == NULL);
  CHECK_ERROR(err, "NotFound: ");
  leveldb_t* db = leveldb_open(options, below(argv, "db"), &err);
  CHECK_OK(err);
  put(db, "one");
  CHECK(cleavedb_backup(db, backup, 0, &err) == 1);
  put(db, "two");
  CHECK(cleavedb_backup(db, backup, 0, &err) == 2);
  CHECK_OK(err);
  CHECK(cleavedb_backup_verify(backup, 0, &err) == 0);
  CHECK_OK(err);
  lists(backup, "\"points\":[{\"number\":1,");
  CHECK(cleavedb_backup_restore(backup, 1, target, &err) == 1);
  CHECK_OK(err);
  holds(target, "one");
  CHECK(cleavedb_backup_restore(backup, 0, target, &err) == 0);
  CHECK_ERROR(err, "Invalid argument: ");
  CHECK(cleavedb_backup_restore(backup, 0, below(argv, "newest"), &err) == 2);
  CHECK_OK(err);
  holds(below(argv, "newest"), "two");

  put(db, "three");
  CHECK(cleavedb_backup(db, backup, 2, &err) == 3);
  CHECK_OK(err);
  lists(backup, "\"points\":[{\"number\":2,");
  cleavedb_backup_delete(backup, 1, &err);
  CHECK_ERROR(err, "NotFound: ");
  cleavedb_backup_delete(backup, 2, &err);
  CHECK_OK(err);
  CHECK(cleavedb_backup_keep_newest(backup, 1, &err) == 0);
  CHECK_OK(err);
  CHECK(cleavedb_backup_keep_newest(backup, 0, &err) == 0);
  CHECK_ERROR(err, "Invalid argument: ");
  CHECK(cleavedb_backup(db, below(argv, "db"), 0, &err) == 0);
  CHECK_ERROR(err, "Invalid argument: ");
  CHECK(cleavedb_backup(NULL, backup, 0, &err) == 0);
  CHECK_ERROR(err, "Invalid argument: ");

  snprintf(description, sizeof description, "%s/00000003.point", backup);
  damage(description);
  CHECK(cleavedb_backup_verify(backup, 0, &err) == 1);
  CHECK_ERROR(err, "Corruption: ");
  CHECK(cleavedb_backup_restore(backup, 0, below(argv, "never"), &err) == 0);
  CHECK_ERROR(err, "Corruption: ");

  leveldb_close(db);
  leveldb_readoptions_destroy(reading);
  leveldb_writeoptions_destroy(writing);
  leveldb_options_destroy(options);
  CHECK(cleavedb_open_handles() == 0);
  puts("ok");
  return 0;
}
