/* The functions of CleaveDB beyond LevelDB's C interface, in the same style: see leveldb/c.h for
 * the conventions. The functions of both work on the same databases, iterators, snapshots, batches
 * and options.
 */
#ifndef CLEAVEDB_C_H_
#define CLEAVEDB_C_H_

#include <leveldb/c.h>

#ifdef __cplusplus
extern "C" {
#endif

/* major * 1000000 + minor * 1000 + patch of this library. */
LEVELDB_EXPORT int cleavedb_version_number(void);
/* The number of handles of any type that are open in this process: leaks show here. At most 2^20
 * can be; what is created beyond that is NULL, with an error where there is an errptr. */
LEVELDB_EXPORT size_t cleavedb_open_handles(void);

/* Keyspaces: named ordered maps inside a database. The functions of LevelDB work on the one called
 * "default". Snapshots and batches are of all keyspaces at once. */

typedef struct cleavedb_keyspace_t cleavedb_keyspace_t;

/* Opens a keyspace, or creates it. With options (else NULL), what was set in them about
 * separation, compression, filters, sizes and times becomes its settings, which the database
 * keeps. If a number that was set stands for nothing, that is the error, as in leveldb_open. */
LEVELDB_EXPORT cleavedb_keyspace_t* cleavedb_keyspace_open(leveldb_t* db,
                                                           const leveldb_options_t* options,
                                                           const char* name, char** errptr);
/* Ends the handle; the keyspace stays. */
LEVELDB_EXPORT void cleavedb_keyspace_close(cleavedb_keyspace_t*);
/* Drops a keyspace with everything in it. */
LEVELDB_EXPORT void cleavedb_keyspace_drop(leveldb_t* db, const char* name, char** errptr);
/* The names of all keyspaces, one behind the other, each with its zero byte; for leveldb_free. */
LEVELDB_EXPORT char* cleavedb_keyspace_names(leveldb_t* db, size_t* count);

LEVELDB_EXPORT void cleavedb_put(cleavedb_keyspace_t*, const leveldb_writeoptions_t* options,
                                 const char* key, size_t keylen, const char* val, size_t vallen,
                                 char** errptr);
LEVELDB_EXPORT void cleavedb_delete(cleavedb_keyspace_t*, const leveldb_writeoptions_t* options,
                                    const char* key, size_t keylen, char** errptr);
LEVELDB_EXPORT char* cleavedb_get(cleavedb_keyspace_t*, const leveldb_readoptions_t* options,
                                  const char* key, size_t keylen, size_t* vallen, char** errptr);
/* The values of num_keys keys at one moment; separated values are read in parallel. Fills all
 * three arrays: values (NULL: none) and error messages (NULL: none) are for leveldb_free. */
LEVELDB_EXPORT void cleavedb_multi_get(cleavedb_keyspace_t*, const leveldb_readoptions_t* options,
                                       size_t num_keys, const char* const* keys,
                                       const size_t* key_lens, char** values, size_t* value_lens,
                                       char** errs);

/* For the functions leveldb_iter_... */
LEVELDB_EXPORT leveldb_iterator_t* cleavedb_create_iterator(cleavedb_keyspace_t*,
                                                            const leveldb_readoptions_t* options);
/* The last key at or before this one. */
LEVELDB_EXPORT void cleavedb_iter_seek_for_prev(leveldb_iterator_t*, const char* k, size_t klen);

LEVELDB_EXPORT void cleavedb_writebatch_put(leveldb_writebatch_t*, cleavedb_keyspace_t*,
                                            const char* key, size_t klen, const char* val,
                                            size_t vlen);
LEVELDB_EXPORT void cleavedb_writebatch_delete(leveldb_writebatch_t*, cleavedb_keyspace_t*,
                                               const char* key, size_t klen);

/* Deletes all keys from begin on that are before end, with one write however many there are. A null
 * pointer leaves that end of the range open. leveldb_writebatch_iterate passes over ranges. */
LEVELDB_EXPORT void cleavedb_delete_range(cleavedb_keyspace_t*,
                                          const leveldb_writeoptions_t* options, const char* begin,
                                          size_t beginlen, const char* end, size_t endlen,
                                          char** errptr);
LEVELDB_EXPORT void cleavedb_writebatch_delete_range(leveldb_writebatch_t*, cleavedb_keyspace_t*,
                                                     const char* begin, size_t beginlen,
                                                     const char* end, size_t endlen);
/* The same for all keys that begin with a prefix, in a keyspace without a comparator. */
LEVELDB_EXPORT void cleavedb_delete_prefix(cleavedb_keyspace_t*,
                                           const leveldb_writeoptions_t* options,
                                           const char* prefix, size_t prefixlen, char** errptr);
LEVELDB_EXPORT void cleavedb_writebatch_delete_prefix(leveldb_writebatch_t*, cleavedb_keyspace_t*,
                                                      const char* prefix, size_t prefixlen);

/* Merge operators: an operand is merged with what is under the key, without reading it first: a
 * counter, a list that grows. A keyspace gets its operator when it is created, by the options with
 * which it is opened for the first time, and keeps it; nothing expires in it. Built in are
 * "cleavedb.Add" (integers in decimal text), "cleavedb.Append" (keeps the last MiB),
 * "cleavedb.Append:N" (keeps the last N bytes), "cleavedb.Max", "cleavedb.Min" (compared by bytes)
 * and "cleavedb.Union" (sets of lines). */
LEVELDB_EXPORT void cleavedb_options_set_merge_operator(leveldb_options_t*, const char* name);
LEVELDB_EXPORT void cleavedb_merge(cleavedb_keyspace_t*, const leveldb_writeoptions_t* options,
                                   const char* key, size_t keylen, const char* operand,
                                   size_t operandlen, char** errptr);
/* leveldb_writebatch_iterate passes over merges. */
LEVELDB_EXPORT void cleavedb_writebatch_merge(leveldb_writebatch_t*, cleavedb_keyspace_t*,
                                              const char* key, size_t keylen, const char* operand,
                                              size_t operandlen);
/* An operator of one's own, for the databases that these options open. Keyspaces name it in
 * cleavedb_options_set_merge_operator; a database with such a keyspace can only be opened with it.
 * full makes a value of the operands, oldest first, and of what was there before, NULL if that is
 * nothing. partial, which may be NULL, makes one operand of two; how operands are grouped must not
 * matter. Both return 1, with memory from malloc at *result (or NULL and a length of 0 for no
 * bytes), or 0 if they can't. Then reads of the key fail, and nothing is lost. Several threads call
 * them at once. They must be deterministic, must not call the database, and must not throw. */
LEVELDB_EXPORT void cleavedb_options_add_merge_operator(
    leveldb_options_t*, void* state, void (*destructor)(void*),
    uint8_t (*full)(void*, const char* key, size_t keylen, const char* base, size_t baselen,
                    const char* const* operands, const size_t* operand_lens, size_t num_operands,
                    char** result, size_t* resultlen),
    uint8_t (*partial)(void*, const char* key, size_t keylen, const char* older, size_t olderlen,
                       const char* newer, size_t newerlen, char** result, size_t* resultlen),
    const char* (*name)(void*));

/* Conditional writes. A version is the number of the write that made a value; no other write of
 * the database ever has the same, and it is never 0. */

/* As cleavedb_get; the value's version goes to *version, or 0 if there is no value. */
LEVELDB_EXPORT char* cleavedb_get_versioned(cleavedb_keyspace_t*,
                                            const leveldb_readoptions_t* options, const char* key,
                                            size_t keylen, size_t* vallen, uint64_t* version,
                                            char** errptr);

/* The next five write if what is under the key is as expected; nobody else writes between the
 * comparison and the write. They return 1 and set *version to the new version if they have
 * written; *found is NULL then. They return 0 and have written nothing if something else was found:
 * *found is its value, for leveldb_free, and *version its version; NULL and 0 if there was none.
 * That is no error. They return 0, too, if they set an error. version, found and foundlen may be
 * NULL. */

/* Puts if the key has no value. */
LEVELDB_EXPORT uint8_t cleavedb_put_if_absent(cleavedb_keyspace_t*,
                                              const leveldb_writeoptions_t* options,
                                              const char* key, size_t keylen, const char* val,
                                              size_t vallen, uint64_t* version, char** found,
                                              size_t* foundlen, char** errptr);
/* Puts if the key has this value. */
LEVELDB_EXPORT uint8_t cleavedb_compare_and_set(cleavedb_keyspace_t*,
                                                const leveldb_writeoptions_t* options,
                                                const char* key, size_t keylen,
                                                const char* expected, size_t expectedlen,
                                                const char* val, size_t vallen, uint64_t* version,
                                                char** found, size_t* foundlen, char** errptr);
/* Puts if the key's value is of this version. */
LEVELDB_EXPORT uint8_t cleavedb_compare_and_set_version(
    cleavedb_keyspace_t*, const leveldb_writeoptions_t* options, const char* key, size_t keylen,
    uint64_t expected, const char* val, size_t vallen, uint64_t* version, char** found,
    size_t* foundlen, char** errptr);
/* Deletes the key if it has this value. */
LEVELDB_EXPORT uint8_t cleavedb_compare_and_delete(cleavedb_keyspace_t*,
                                                   const leveldb_writeoptions_t* options,
                                                   const char* key, size_t keylen,
                                                   const char* expected, size_t expectedlen,
                                                   uint64_t* version, char** found,
                                                   size_t* foundlen, char** errptr);
/* Deletes the key if its value is of this version. */
LEVELDB_EXPORT uint8_t cleavedb_compare_and_delete_version(
    cleavedb_keyspace_t*, const leveldb_writeoptions_t* options, const char* key, size_t keylen,
    uint64_t expected, uint64_t* version, char** found, size_t* foundlen, char** errptr);

/* Replaces a value by what change makes of it. old is NULL, and oldlen 0, if there is none; change
 * returns memory from malloc, with its length in *newlen, or NULL for no value. If somebody else
 * writes the key meanwhile, change is called again with what is there then; it may run on this
 * thread only, and calls nothing of this database. */
LEVELDB_EXPORT void cleavedb_update(cleavedb_keyspace_t*, const leveldb_writeoptions_t* options,
                                    const char* key, size_t keylen, void* state,
                                    char* (*change)(void* state, const char* old, size_t oldlen,
                                                    size_t* newlen),
                                    char** errptr);

/* Requirements of a batch. If one is not met, leveldb_write writes nothing and fails with a message
 * that begins with "Conflict: ". They see none of the batch's own operations. */
LEVELDB_EXPORT void cleavedb_writebatch_require_absent(leveldb_writebatch_t*, cleavedb_keyspace_t*,
                                                       const char* key, size_t klen);
LEVELDB_EXPORT void cleavedb_writebatch_require_value(leveldb_writebatch_t*, cleavedb_keyspace_t*,
                                                      const char* key, size_t klen,
                                                      const char* expected, size_t expectedlen);
LEVELDB_EXPORT void cleavedb_writebatch_require_version(leveldb_writebatch_t*, cleavedb_keyspace_t*,
                                                        const char* key, size_t klen,
                                                        uint64_t expected);

/* Transactions: several reads and writes, over any keyspaces of a database, that take effect as if
 * they happened at one moment, that of the commit. A transaction reads what was committed when it
 * began, and its own writes; nobody else sees these before the commit. It ends with its commit;
 * later calls fail, and the handle must still be destroyed. The database may be closed before. */

typedef struct cleavedb_transaction_t cleavedb_transaction_t;

LEVELDB_EXPORT cleavedb_transaction_t* cleavedb_transaction_begin(leveldb_t* db, char** errptr);
/* Makes all writes take effect, or nothing. If somebody else has written what the transaction has
 * read, keys or parts of ranges, or a value that it has read has expired, the message begins with
 * "Conflict: ": begin anew, read again. */
LEVELDB_EXPORT void cleavedb_transaction_commit(cleavedb_transaction_t*,
                                                const leveldb_writeoptions_t* options,
                                                char** errptr);
/* Ends the handle. A transaction that was not committed has no effect. */
LEVELDB_EXPORT void cleavedb_transaction_destroy(cleavedb_transaction_t*);
/* Runs body in a transaction, which ends with the call, and commits it unless body returns 0. If
 * that meets a conflict, all is run again in another transaction, after a random wait that grows,
 * so body does nothing that can't be done again. After many conflicts the message begins with
 * "Conflict: ". Returns 1 if it was committed. */
LEVELDB_EXPORT uint8_t cleavedb_transact(leveldb_t* db, const leveldb_writeoptions_t* options,
                                         void* state,
                                         int (*body)(void* state, cleavedb_transaction_t*),
                                         char** errptr);
/* The read options of these three must have no snapshot. */
LEVELDB_EXPORT char* cleavedb_transaction_get(cleavedb_transaction_t*, cleavedb_keyspace_t*,
                                              const leveldb_readoptions_t* options, const char* key,
                                              size_t keylen, size_t* vallen, char** errptr);
/* The version of the transaction's own writes is 0. */
LEVELDB_EXPORT char* cleavedb_transaction_get_versioned(cleavedb_transaction_t*,
                                                        cleavedb_keyspace_t*,
                                                        const leveldb_readoptions_t* options,
                                                        const char* key, size_t keylen,
                                                        size_t* vallen, uint64_t* version,
                                                        char** errptr);
/* For the functions leveldb_iter_... Sees the writes that the transaction made before. The part
 * that is walked counts as read. */
LEVELDB_EXPORT leveldb_iterator_t* cleavedb_transaction_create_iterator(
    cleavedb_transaction_t*, cleavedb_keyspace_t*, const leveldb_readoptions_t* options);
LEVELDB_EXPORT void cleavedb_transaction_put(cleavedb_transaction_t*, cleavedb_keyspace_t*,
                                             const char* key, size_t keylen, const char* val,
                                             size_t vallen, char** errptr);
LEVELDB_EXPORT void cleavedb_transaction_delete(cleavedb_transaction_t*, cleavedb_keyspace_t*,
                                                const char* key, size_t keylen, char** errptr);
/* Reads nothing, so transactions that only merge have no conflicts. */
LEVELDB_EXPORT void cleavedb_transaction_merge(cleavedb_transaction_t*, cleavedb_keyspace_t*,
                                               const char* key, size_t keylen,
                                               const char* operand, size_t operandlen,
                                               char** errptr);
/* Deletes the keys that are in the range at the commit. Reads nothing. */
LEVELDB_EXPORT void cleavedb_transaction_delete_range(cleavedb_transaction_t*, cleavedb_keyspace_t*,
                                                      const char* begin, size_t beginlen,
                                                      const char* end, size_t endlen,
                                                      char** errptr);
LEVELDB_EXPORT void cleavedb_transaction_delete_prefix(cleavedb_transaction_t*,
                                                       cleavedb_keyspace_t*, const char* prefix,
                                                       size_t prefixlen, char** errptr);
/* Marks this point and returns its number, which is not 0. */
LEVELDB_EXPORT uint64_t cleavedb_transaction_savepoint(cleavedb_transaction_t*, char** errptr);
/* Takes back the writes since that point, which stays; later points end. What was read still
 * counts as read. */
LEVELDB_EXPORT void cleavedb_transaction_rollback_to(cleavedb_transaction_t*, uint64_t savepoint,
                                                     char** errptr);

/* Values that expire: from its deadline on, a key has no value, and the space comes back. Times to
 * live are in milliseconds from the call on, deadlines in milliseconds since 1970, by the system's
 * clock. CLEAVEDB_NEVER, for either, has a value stay. leveldb_put and the others give a value the
 * default of its keyspace. */

#define CLEAVEDB_NEVER UINT64_MAX

LEVELDB_EXPORT void cleavedb_put_expiring(cleavedb_keyspace_t*,
                                          const leveldb_writeoptions_t* options, const char* key,
                                          size_t keylen, const char* val, size_t vallen,
                                          uint64_t ttl_ms, char** errptr);
LEVELDB_EXPORT void cleavedb_put_expiring_at(cleavedb_keyspace_t*,
                                             const leveldb_writeoptions_t* options, const char* key,
                                             size_t keylen, const char* val, size_t vallen,
                                             uint64_t deadline_ms, char** errptr);
/* In a batch, times to live count from leveldb_write on, in a transaction from the put.
 * leveldb_writebatch_iterate shows these puts as it does others. */
LEVELDB_EXPORT void cleavedb_writebatch_put_expiring(leveldb_writebatch_t*, cleavedb_keyspace_t*,
                                                     const char* key, size_t klen, const char* val,
                                                     size_t vlen, uint64_t ttl_ms);
LEVELDB_EXPORT void cleavedb_writebatch_put_expiring_at(leveldb_writebatch_t*, cleavedb_keyspace_t*,
                                                        const char* key, size_t klen,
                                                        const char* val, size_t vlen,
                                                        uint64_t deadline_ms);
LEVELDB_EXPORT void cleavedb_transaction_put_expiring(cleavedb_transaction_t*, cleavedb_keyspace_t*,
                                                      const char* key, size_t keylen,
                                                      const char* val, size_t vallen,
                                                      uint64_t ttl_ms, char** errptr);
LEVELDB_EXPORT void cleavedb_transaction_put_expiring_at(cleavedb_transaction_t*,
                                                         cleavedb_keyspace_t*, const char* key,
                                                         size_t keylen, const char* val,
                                                         size_t vallen, uint64_t deadline_ms,
                                                         char** errptr);
/* Returns 1 and sets *ttl_ms to the time that the value stays, or to CLEAVEDB_NEVER; returns 0 and
 * sets it to 0 if the key has no value, and with an error. At a snapshot, the time counts from when
 * that was taken. */
LEVELDB_EXPORT uint8_t cleavedb_ttl(cleavedb_keyspace_t*, const leveldb_readoptions_t* options,
                                    const char* key, size_t keylen, uint64_t* ttl_ms,
                                    char** errptr);
/* The next three change when the value that is there expires, by putting it again, and never undo a
 * write of somebody else. They return 1, or 0 if the key has no value, and with an error. */
LEVELDB_EXPORT uint8_t cleavedb_expire(cleavedb_keyspace_t*, const leveldb_writeoptions_t* options,
                                       const char* key, size_t keylen, uint64_t ttl_ms,
                                       char** errptr);
LEVELDB_EXPORT uint8_t cleavedb_expire_at(cleavedb_keyspace_t*,
                                          const leveldb_writeoptions_t* options, const char* key,
                                          size_t keylen, uint64_t deadline_ms, char** errptr);
/* Has the value stay. */
LEVELDB_EXPORT uint8_t cleavedb_persist(cleavedb_keyspace_t*, const leveldb_writeoptions_t* options,
                                        const char* key, size_t keylen, char** errptr);
/* The time to live of what is put into a keyspace without another one, at most 1000 years
 * (CLEAVEDB_NEVER). */
LEVELDB_EXPORT void cleavedb_options_set_default_ttl(leveldb_options_t*, uint64_t ttl_ms);

/* Encryption at rest: a database that is created with a key is encrypted, and is opened and
 * repaired with it only. A key is 32 random bytes, never a password. The first that is added is the
 * current one; behind it come former ones, as long as a database may be wrapped with them: opening
 * it wraps it with the current key, which rewrites one small file. A key of another length is
 * refused when a database is opened. Wipe your copy of the bytes. */
LEVELDB_EXPORT void cleavedb_options_add_encryption_key(leveldb_options_t*, const char* key,
                                                        size_t keylen);

/* Compaction filters: a function that compactions of a keyspace ask about each value that they
 * would keep, if no snapshot, transaction or iterator sees it. It returns one of these. Readers see
 * the entry as it was written until a compaction has asked; leveldb_compact_range over everything
 * does. A change is no write: the key keeps its version and its time to live, and the change feed
 * does not tell it. Several threads call the function at once, and none holds a lock of the
 * database. It must decide by the entry alone, must keep what it has changed, and must not throw.
 * It is not recorded: set it in the options of each opening. */
typedef struct cleavedb_filtered_entry_t cleavedb_filtered_entry_t;
enum {
  cleavedb_filter_keep = 0,
  cleavedb_filter_drop = 1,
  cleavedb_filter_change = 2 /* to the memory from malloc in *val, of *vallen bytes */
};
/* The destructor, which may be NULL, runs once the options are destroyed or have another filter for
 * the keyspace, and no database uses this one any more. */
LEVELDB_EXPORT void cleavedb_options_set_compaction_filter(
    leveldb_options_t*, const char* keyspace, void* state, void (*destructor)(void*),
    int (*filter)(void*, const cleavedb_filtered_entry_t*, char** val, size_t* vallen),
    const char* (*name)(void*));
/* What a filter may ask, during its call. The memory is the entry's. */
LEVELDB_EXPORT const char* cleavedb_filtered_entry_key(const cleavedb_filtered_entry_t*,
                                                       size_t* keylen);
/* Reads the value if it is separated. NULL if that fails: the compaction fails then, whatever the
 * filter returns. */
LEVELDB_EXPORT const char* cleavedb_filtered_entry_value(const cleavedb_filtered_entry_t*,
                                                         size_t* vallen);
/* The version of the key, as cleavedb_get_versioned returns it. */
LEVELDB_EXPORT uint64_t cleavedb_filtered_entry_version(const cleavedb_filtered_entry_t*);
/* When the value expires, in milliseconds since 1970, or CLEAVEDB_NEVER. */
LEVELDB_EXPORT uint64_t cleavedb_filtered_entry_expires_at(const cleavedb_filtered_entry_t*);

/* The change feed: what was committed, batch by batch, in the order of commits, and more as it is
 * committed. A consumer stands on one batch at a time; each batch comes whole. Two threads must not
 * use one consumer at once. It holds the database open until that is closed; later calls fail, and
 * the handle must still be destroyed. */

typedef struct cleavedb_changes_t cleavedb_changes_t;

/* Flags; their sum is passed. */
enum {
  /* Keeps the log that was not handed out yet for as long as the consumer lives. The space is
   * taken beyond the ceiling, and holds no writer up. */
  cleavedb_changes_pin = 1,
  /* Hands out what a power cut may still take. Without it, only what is durable is handed out, and
   * the log is synced if more was committed: a consumer elsewhere is never ahead. */
  cleavedb_changes_visible = 2
};

/* Begins behind the sequence number `since`, the last that was seen; 0 begins with the oldest that
 * the log has. The message begins with "Gone: " if the log no longer has what follows, or if the
 * number is greater than that of any commit: copy what there is at a snapshot, and go on from
 * there. */
LEVELDB_EXPORT cleavedb_changes_t* cleavedb_changes_create(leveldb_t* db, uint64_t since,
                                                           uint32_t flags, char** errptr);
LEVELDB_EXPORT void cleavedb_changes_destroy(cleavedb_changes_t*);
/* Moves to the next batch and returns how many changes it has. Returns 0 if there is none within
 * this time, and with an error; after an error the next call tries again. Its keys and values stay
 * until the next call of this or of cleavedb_changes_skip_to. */
LEVELDB_EXPORT size_t cleavedb_changes_next(cleavedb_changes_t*, uint64_t timeout_ms,
                                            char** errptr);
/* The number of the last change that was handed out: what to pass as `since` the next time. */
LEVELDB_EXPORT uint64_t cleavedb_changes_position(cleavedb_changes_t*);
/* Goes on behind this number, without handing out what is before. */
LEVELDB_EXPORT void cleavedb_changes_skip_to(cleavedb_changes_t*, uint64_t seqno, char** errptr);

/* The changes of the batch, by their index from 0 on. */

/* The sequence number: the version of the value. */
LEVELDB_EXPORT uint64_t cleavedb_change_seqno(cleavedb_changes_t*, size_t index);
/* The name of the keyspace, without a zero byte at its end; NULL if the keyspace was dropped. */
LEVELDB_EXPORT const char* cleavedb_change_keyspace(cleavedb_changes_t*, size_t index, size_t* len);
/* The id of the keyspace; none is used twice. */
LEVELDB_EXPORT uint64_t cleavedb_change_keyspace_id(cleavedb_changes_t*, size_t index);
LEVELDB_EXPORT const char* cleavedb_change_key(cleavedb_changes_t*, size_t index, size_t* len);
/* What was done to the key. Others may come; 0 is one that is not known here. */
enum {
  cleavedb_change_put = 1,
  cleavedb_change_deleted = 2,
  cleavedb_change_deleted_range = 3, /* its key is the lower end */
  cleavedb_change_merged = 4,
  cleavedb_change_ingested = 5 /* as a deleted range, from the first to the last key */
};
LEVELDB_EXPORT int cleavedb_change_kind(cleavedb_changes_t*, size_t index);
/* The value of a put, and its deadline or CLEAVEDB_NEVER; the operand of a merge; NULL for others.
 * deadline_ms may be NULL. */
LEVELDB_EXPORT const char* cleavedb_change_value(cleavedb_changes_t*, size_t index, size_t* len,
                                                 uint64_t* deadline_ms);
/* The lower end of a deleted range or of an ingest, or if is_upper is not 0 the upper one, and 1 at
 * *included if it belongs to the range; NULL if there is no such end, and for other changes. */
LEVELDB_EXPORT const char* cleavedb_change_range_end(cleavedb_changes_t*, size_t index,
                                                     uint8_t is_upper, size_t* len,
                                                     uint8_t* included);

/* Sorted files: keys in ascending order (of their bytes), written outside of any database, to be
 * taken into a keyspace at once. Large values go to a second file, with .values behind the name. */

typedef struct cleavedb_sortedfile_t cleavedb_sortedfile_t;

/* Begins a file where there is none. */
LEVELDB_EXPORT cleavedb_sortedfile_t* cleavedb_sortedfile_create(const char* path, char** errptr);
/* The same for a file that is encrypted with a key of 32 bytes: databases that were opened with
 * this key, as their current or a former one, can ingest it. What cleavedb_sortedfile_create makes
 * can be read by anybody who can read the file, whatever the database is that takes it. */
LEVELDB_EXPORT cleavedb_sortedfile_t* cleavedb_sortedfile_create_encrypted(const char* path,
                                                                           const char* key,
                                                                           size_t keylen,
                                                                           char** errptr);
/* A key that does not come behind the one before is an error, and left out. */
LEVELDB_EXPORT void cleavedb_sortedfile_put(cleavedb_sortedfile_t*, const char* key, size_t keylen,
                                            const char* val, size_t vallen, char** errptr);
LEVELDB_EXPORT void cleavedb_sortedfile_delete(cleavedb_sortedfile_t*, const char* key,
                                               size_t keylen, char** errptr);
/* Completes the file, which is on the device then. What follows is an error. */
LEVELDB_EXPORT void cleavedb_sortedfile_finish(cleavedb_sortedfile_t*, char** errptr);
/* Removes what was not finished. */
LEVELDB_EXPORT void cleavedb_sortedfile_destroy(cleavedb_sortedfile_t*);

enum {
  cleavedb_ingest_below = 1 /* keys that have a value keep it, and deletions are left out */
};
/* Takes sorted files into a keyspace: all of their keys take effect at one moment, durably, or none
 * does. Of a key in several files, the last file counts. The files stay as they are. Returns the
 * number of keys. */
LEVELDB_EXPORT uint64_t cleavedb_ingest(cleavedb_keyspace_t*, const char* const* paths,
                                        size_t num_paths, uint32_t flags, char** errptr);

/* When a write is acknowledged. */
enum {
  cleavedb_durability_default = 0,  /* as the options of the database say */
  cleavedb_durability_buffered = 1, /* in a buffer of this process */
  cleavedb_durability_os = 2,       /* with the kernel: survives a killed process; the default */
  cleavedb_durability_sync = 3,     /* on the device: survives a power cut */
  cleavedb_durability_every = 4     /* as os, and on the device within interval_ms */
};
LEVELDB_EXPORT void cleavedb_options_set_durability(leveldb_options_t*, int durability,
                                                    uint64_t interval_ms);
/* Goes before leveldb_writeoptions_set_sync. */
LEVELDB_EXPORT void cleavedb_writeoptions_set_durability(leveldb_writeoptions_t*, int durability,
                                                         uint64_t interval_ms);

/* Sets whether large values are separated from keys, and from which size on (1024 bytes): at
 * write, where they stay in the log, or at flush, where each flush writes them in key order. With
 * auto, the default, the engine chooses between the two: at flush, unless the log of them
 * gets to the device anyway and nobody scans them. */
enum {
  cleavedb_separation_off = 0,
  cleavedb_separation_at_write = 1,
  cleavedb_separation_at_flush = 2,
  cleavedb_separation_auto = 3
};
LEVELDB_EXPORT void cleavedb_options_set_separation(leveldb_options_t*, int mode);
LEVELDB_EXPORT void cleavedb_options_set_separation_threshold(leveldb_options_t*, size_t bytes);
/* Whether compactions move stored values to where the two settings above say now. On by default;
 * cleavedb_convert moves all at once. */
LEVELDB_EXPORT void cleavedb_options_set_convert_in_compactions(leveldb_options_t*, uint8_t);
/* The codec of separated values, each compressed alone. zstd is not part of every build. */
enum { cleavedb_codec_none = 0, cleavedb_codec_lz4 = 1, cleavedb_codec_zstd = 2 };
LEVELDB_EXPORT void cleavedb_options_set_value_compression(leveldb_options_t*, int codec);
/* Changes nothing on disk; writes are refused. */
LEVELDB_EXPORT void cleavedb_options_set_read_only(leveldb_options_t*, uint8_t);
/* Reads beside the process that has the database open for writing, without a lock: reads see the
 * state of the opening, and newer ones after cleavedb_catch_up. An iterator can fail if the writer
 * removes a file that it needs; then begin again. Implies read_only. */
LEVELDB_EXPORT void cleavedb_options_set_follow(leveldb_options_t*, uint8_t);
/* Follows, and keeps the files of what is seen by hard links in a directory of its own, so that no
 * iterator fails; their space does not come back meanwhile. */
LEVELDB_EXPORT void cleavedb_options_set_follow_pinned(leveldb_options_t*, uint8_t);
/* Of a database that follows: reads catch up by themselves if they would see a state that is older
 * than this (UINT64_MAX: never). */
LEVELDB_EXPORT void cleavedb_options_set_follow_every(leveldb_options_t*, uint64_t milliseconds);
/* The most bytes of log that an opening may have to replay (512 MiB). */
LEVELDB_EXPORT void cleavedb_options_set_max_replay_bytes(leveldb_options_t*, uint64_t bytes);
/* A log segment is closed at this size (64 MiB). */
LEVELDB_EXPORT void cleavedb_options_set_segment_bytes(leveldb_options_t*, uint64_t bytes);

/* The ceiling of space (2.0): all files together take at most this many times the bytes that reads
   see, but for the allowance below and for what snapshots and iterators keep. Near it, and only
   there, writes are slowed down to save space. */
LEVELDB_EXPORT void cleavedb_options_set_max_space_amplification(leveldb_options_t*, double);
/* The bound to which space comes down while nobody writes (1.2). */
LEVELDB_EXPORT void cleavedb_options_set_settled_space_amplification(leveldb_options_t*, double);
/* Garbage that is allowed while users write, however little is live (256 MiB). */
LEVELDB_EXPORT void cleavedb_options_set_space_allowance_bytes(leveldb_options_t*, uint64_t bytes);
/* Whether the space of dead values comes back by itself (true). */
LEVELDB_EXPORT void cleavedb_options_set_automatic_gc(leveldb_options_t*, uint8_t);
/* The least share of garbage of a discardable segment: one that is collected even if the bounds
   above hold, by moving what is live in it (0.5), from 0.05 to 1. */
LEVELDB_EXPORT void cleavedb_options_set_discardable_ratio(leveldb_options_t*, double);
/* The same for segments whose garbage becomes holes: the least share of a segment's bytes that they
   would free (0.2), from 0.05 to 1. */
LEVELDB_EXPORT void cleavedb_options_set_punch_ratio(leveldb_options_t*, double);
/* When discardable segments are collected (idle). */
enum {
  cleavedb_collect_discardable_idle = 0,  /* while nobody writes */
  cleavedb_collect_discardable_always = 1 /* while users write, too; it does not slow them down */
};
LEVELDB_EXPORT void cleavedb_options_set_collect_discardable(leveldb_options_t*, int when);
/* The most memory for lists of live values while their space is collected (128 MiB). With less,
   all keys are read more often for the same work. */
LEVELDB_EXPORT void cleavedb_options_set_gc_memory_bytes(leveldb_options_t*, uint64_t bytes);
/* Whether dead bytes are given back by punching holes into files where that is cheaper than moving
   what is live, and the file system can do it (true). Without it files stay whole. */
LEVELDB_EXPORT void cleavedb_options_set_punch(leveldb_options_t*, uint8_t);
/* Whether other processes of the same user can ask this one about the database, at the socket
   CONTROL in its directory, with the command cleave (true). */
LEVELDB_EXPORT void cleavedb_options_set_control_socket(leveldb_options_t*, uint8_t);
/* Memory for the update table, which knows the newest entries of keys flushed lately (0: off). */
LEVELDB_EXPORT void cleavedb_options_set_update_table_bytes(leveldb_options_t*, uint64_t bytes);
/* Memory in which the tree is kept as a whole; the opening loads it (0: off). Walks over keys then
   read nothing from disk. cleavedb_stats_json says what does not fit. */
LEVELDB_EXPORT void cleavedb_options_set_pin_tree(leveldb_options_t*, uint64_t bytes);
/* With an update table: how many entries of a table must be stale, because newer tables supersede
 * them, before it is compacted early (a share of 0.5). */
enum {
  cleavedb_early_compaction_off = 0,    /* never; the amount does not matter */
  cleavedb_early_compaction_share = 1,  /* this share of its entries, above 0 and at most 1 */
  cleavedb_early_compaction_entries = 2 /* this number of entries, at least 1 */
};
LEVELDB_EXPORT void cleavedb_options_set_early_compaction(leveldb_options_t*, int trigger,
                                                          double amount);

/* Whether separated values that scans find strewn are put into key order in the background, once
 * scans have lost as much to reads as that costs (true). */
LEVELDB_EXPORT void cleavedb_options_set_scan_order(leveldb_options_t*, uint8_t);

/* Of iterators: read separated values ahead, once some were asked for (true). */
LEVELDB_EXPORT void cleavedb_readoptions_set_read_ahead(leveldb_readoptions_t*, uint8_t);
/* Of iterators: the first key that belongs to the walk; NULL for none. */
LEVELDB_EXPORT void cleavedb_readoptions_set_lower_bound(leveldb_readoptions_t*, const char* key,
                                                         size_t keylen);
/* Of iterators: the first key that does not any more; NULL for none. */
LEVELDB_EXPORT void cleavedb_readoptions_set_upper_bound(leveldb_readoptions_t*, const char* key,
                                                         size_t keylen);
/* Of iterators: only keys that begin with this; NULL for all. Needs keys in byte order. */
LEVELDB_EXPORT void cleavedb_readoptions_set_prefix(leveldb_readoptions_t*, const char* prefix,
                                                    size_t prefixlen);

/* Makes all that was written so far survive a power cut. */
LEVELDB_EXPORT void cleavedb_sync(leveldb_t* db, char** errptr);
/* Of a database that follows another process: has reads see what that has committed by now. Returns
 * the number of the newest commit that they see. */
LEVELDB_EXPORT uint64_t cleavedb_catch_up(leveldb_t* db, char** errptr);
/* Writes what is in memory to tables, and waits for it. */
LEVELDB_EXPORT void cleavedb_flush(leveldb_t* db, char** errptr);
/* Compacts all keyspaces, and waits for it. */
LEVELDB_EXPORT void cleavedb_compact(leveldb_t* db, char** errptr);
/* Frees now what is worth freeing, and waits for it. Returns how many bytes came back: those of
 * freed segments and of holes, less what was written again. */
LEVELDB_EXPORT uint64_t cleavedb_gc(leveldb_t* db, char** errptr);
/* Stops automatic value GC (1), or lets it go on (0). While it is stopped, space may grow. */
LEVELDB_EXPORT void cleavedb_pause_gc(leveldb_t* db, uint8_t);
/* Writes the separated values of these keys in key order, so that scans read them sequentially.
   NULL stands for the first and the last key; both ends belong to the range. */
LEVELDB_EXPORT void cleavedb_reorganize(cleavedb_keyspace_t*, const char* start_key,
                                        size_t start_key_len, const char* limit_key,
                                        size_t limit_key_len, char** errptr);
/* Moves the stored values of a keyspace to where its settings say: those of at least the threshold
   to segments, unless separation is off, all others into the tree. Returns how many have moved. If
   it fails or is interrupted, another call goes on from there. */
LEVELDB_EXPORT uint64_t cleavedb_convert(cleavedb_keyspace_t*, char** errptr);
/* Waits until no background work is due. */
LEVELDB_EXPORT void cleavedb_wait_idle(leveldb_t* db, char** errptr);
/* Where the space is, as a JSON object, for leveldb_free. Reads all keys. */
LEVELDB_EXPORT char* cleavedb_space_json(leveldb_t* db, char** errptr);
/* Makes a second, complete database in a new directory; the files are shared by hard links. */
LEVELDB_EXPORT void cleavedb_checkpoint(leveldb_t* db, const char* directory, char** errptr);

/* Adds a point to the backup in a directory, which is created if it is missing: all that was
 * written so far. Only files that the backup does not have are read and copied; writers and readers
 * go on. Then all but the newest `keep` points are deleted, the new one included; with 0, none.
 * Returns the number of the point, which is not 0. */
LEVELDB_EXPORT uint64_t cleavedb_backup(leveldb_t* db, const char* directory, size_t keep,
                                        char** errptr);
/* The following calls need no open database, and no key. The points as a JSON object, for
 * leveldb_free. */
LEVELDB_EXPORT char* cleavedb_backup_list_json(const char* directory, char** errptr);
/* Reads every file of a point, or of all points (0), and compares it with its checksum. Returns how
 * many problems there are; the error is the first. */
LEVELDB_EXPORT uint64_t cleavedb_backup_verify(const char* directory, uint64_t point,
                                               char** errptr);
/* Makes a database of a point, or of the newest (0), in a directory that is missing or empty. If a
 * file of the point is damaged, that is an error, and nothing is written. Returns the number of the
 * point. */
LEVELDB_EXPORT uint64_t cleavedb_backup_restore(const char* directory, uint64_t point,
                                                const char* target, char** errptr);
/* Deletes a point, and the files that only it needs. */
LEVELDB_EXPORT void cleavedb_backup_delete(const char* directory, uint64_t point, char** errptr);
/* Deletes all points but the newest `keep`, at least 1. Returns how many were deleted. */
LEVELDB_EXPORT size_t cleavedb_backup_keep_newest(const char* directory, size_t keep,
                                                  char** errptr);

/* Reads and verifies everything. Returns how many problems there are, and places that this build
 * can't verify; the error is the first problem, or the first of these places. */
LEVELDB_EXPORT uint64_t cleavedb_check(leveldb_t* db, char** errptr);
/* Statistics as a JSON object, for leveldb_free. */
LEVELDB_EXPORT char* cleavedb_stats_json(leveldb_t* db);

#ifdef __cplusplus
}
#endif

#endif /* CLEAVEDB_C_H_ */
