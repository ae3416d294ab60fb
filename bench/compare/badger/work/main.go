// Does one workload with Badger in one store, checks every read, and prints one JSON object: what
// the driver in Rust does with the other engines, by the same words; see ../../README.md.
package main

import (
	"errors"
	"fmt"
	"math"
	"os"
	"runtime/debug"
	"strconv"
	"strings"
	"time"

	"github.com/dgraph-io/badger/v4"
	"github.com/dgraph-io/badger/v4/options"
)

const (
	mib = 1 << 20
	// A value log file to a memtable, as blob files are in RocksDB.
	buffers = 4
	// Badger collects garbage only when it is told to: the least share of it, and how often.
	gcShare = 0.5
	gcEvery = 2 * time.Second
)

// fail ends the program: a run that met an error has no figure.
func fail(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "badger:", err)
		os.Exit(1)
	}
}

type words map[string]string

func (w words) text(name string) string {
	text, found := w[name]
	if !found {
		fail(errors.New(name + "= is missing"))
	}
	return text
}

func (w words) number(name string) uint64 {
	number, err := strconv.ParseUint(w.text(name), 10, 64)
	fail(err)
	return number
}

func (w words) seconds(name string) time.Duration {
	number, err := strconv.ParseFloat(w.text(name), 64)
	fail(err)
	return time.Duration(number * float64(time.Second))
}

func open(given words, sync bool) *badger.DB {
	buffer, bits := int64(given.number("buffer-mb")*mib), float64(given.number("filter-bits"))
	chosen := badger.DefaultOptions(given.text("dir")).
		WithLoggingLevel(badger.ERROR).
		WithCompression(options.None).
		WithBlockCacheSize(int64(given.number("cache-mb") * mib)).
		WithMemTableSize(buffer).
		WithNumMemtables(2). // as RocksDB; its own five would not fit into the memory
		WithValueThreshold(int64(given.number("threshold"))).
		WithValueLogFileSize(buffers * buffer).
		WithBloomFalsePositive(math.Exp(-bits * math.Ln2 * math.Ln2)).
		WithNumCompactors(int(max(2, given.number("background")))).
		WithVerifyValueChecksum(true). // as the others do
		WithDetectConflicts(false).    // nor do the others
		WithSyncWrites(sync)
	db, err := badger.Open(chosen)
	fail(err)
	return db
}

// collect frees values until none is worth it; returns false if nothing was done.
func collect(db *badger.DB) bool {
	did := false
	for db.RunValueLogGC(gcShare) == nil {
		did = true
	}
	return did
}

func main() {
	given := words{}
	for _, word := range os.Args[1:] {
		name, text, found := strings.Cut(word, "=")
		if !found {
			fail(fmt.Errorf("`%s` is not of the form name=value", word))
		}
		given[name] = text
	}
	s := shape{
		given.number("keys"), given.number("seed"), given.number("stage"), given.number("threads"),
	}
	size, workload := int(given.number("value")), given.text("workload")
	if _, found := given["checksum-of-thread"]; found {
		thread := given.number("checksum-of-thread")
		fmt.Println(checksum(workload, s, thread, given.number("ops"), size))
		return
	}
	// What a program in Go is told in a container: to collect before the memory is full.
	debug.SetMemoryLimit(int64(given.number("memory-mb") * mib * 3 / 4))
	for _, name := range []string{"ceiling", "settled", "allowance-mb", "punch"} {
		if _, found := given[name]; found {
			fail(errors.New(name + "= means nothing to Badger"))
		}
	}
	begun := time.Now()
	db := open(given, workload == "synced")
	opening := time.Since(begun)
	if workload == "verify" {
		verify(db, s, size, given.text("history"))
	} else {
		t := &task{
			db: db, shape: s, workload: workload, size: size, ops: given.number("ops"),
			most: given.seconds("seconds"), rest: given.seconds("rest"), opening: opening,
		}
		t.run()
	}
	if given.number("hold") == 1 {
		// The figures are told; now somebody kills the process, as a crash would end it.
		for {
			time.Sleep(time.Hour)
		}
	}
	fail(db.Close())
}
