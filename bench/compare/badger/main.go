// Badger under the conditional workloads of `cleave bench`: the same keys, the same work, every read
// checked. Prints one JSON object for each workload.
//
// Usage: badger DIR WORKLOAD,… NUM VALUE_SIZE THREADS SECONDS
package main

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dgraph-io/badger/v4"
	"github.com/dgraph-io/badger/v4/options"
)

const (
	group        = 4
	counterFirst = "counter/"
)

// fail ends the program: a run that met an error has no figure.
func fail(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "badger:", err)
		os.Exit(1)
	}
}

// key returns sixteen decimal digits, so that keys sort as the numbers do.
func key(number uint64) []byte {
	return []byte(fmt.Sprintf("%016d", number))
}

func decode(value []byte, at int) uint64 {
	if len(value) < at+8 {
		fail(errors.New("a value is too short"))
	}
	return binary.LittleEndian.Uint64(value[at:])
}

var pool = func() []byte {
	bytes := make([]byte, 4<<20)
	rand.New(rand.NewSource(7)).Read(bytes)
	return bytes
}()

// value begins with the number of its key and with what makes it unlike others of that key.
func value(number, draw uint64, size int) []byte {
	at := draw % uint64(len(pool)-size)
	bytes := append([]byte(nil), pool[at:at+uint64(size)]...)
	binary.LittleEndian.PutUint64(bytes, number)
	binary.LittleEndian.PutUint64(bytes[8:], draw)
	return bytes
}

type bench struct {
	db        *badger.DB
	num       uint64
	valueSize int
	threads   int
	time      time.Duration
	conflicts atomic.Uint64
}

// worker is one thread of a workload.
type worker struct {
	*bench
	random     *rand.Rand
	first, end uint64
	versions   []uint64
}

func (w *worker) draw(shared bool) uint64 {
	if shared {
		return w.random.Uint64() % w.num
	}
	return w.first + w.random.Uint64()%(w.end-w.first)
}

func (w *worker) value(number uint64) []byte {
	return value(number, w.random.Uint64(), w.valueSize)
}

// get reads a value and checks whose it is.
func get(txn *badger.Txn, number uint64) *badger.Item {
	item, err := txn.Get(key(number))
	fail(err)
	fail(item.Value(func(found []byte) error {
		if decode(found, 0) != number {
			return errors.New("a wrong value")
		}
		return nil
	}))
	return item
}

func (w *worker) put() {
	number := w.draw(true)
	fail(w.db.Update(func(txn *badger.Txn) error {
		return txn.Set(key(number), w.value(number))
	}))
}

// compareAndSet knows what is expected, since nobody else writes the key.
func (w *worker) compareAndSet() {
	if w.versions == nil {
		w.versions = make([]uint64, w.end-w.first)
	}
	number := w.draw(false)
	expected := &w.versions[number-w.first]
	made := w.value(number)
	fail(w.db.Update(func(txn *badger.Txn) error {
		item, err := txn.Get(key(number))
		fail(err)
		if *expected != 0 && item.Version() < *expected {
			return errors.New("an old version")
		}
		*expected = item.Version()
		return txn.Set(key(number), made)
	}))
}

// retried runs a transaction until it does not conflict.
func (w *worker) retried(work func(txn *badger.Txn) error) {
	for {
		err := w.db.Update(work)
		if !errors.Is(err, badger.ErrConflict) {
			fail(err)
			return
		}
		w.conflicts.Add(1)
	}
}

func (w *worker) increment() {
	counter := append([]byte(counterFirst), key(w.draw(true))...)
	w.retried(func(txn *badger.Txn) error {
		sum := uint64(1)
		item, err := txn.Get(counter)
		if err == nil {
			fail(item.Value(func(found []byte) error {
				sum += decode(found, 0)
				return nil
			}))
		} else if !errors.Is(err, badger.ErrKeyNotFound) {
			return err
		}
		return txn.Set(counter, binary.LittleEndian.AppendUint64(nil, sum))
	})
}

func (w *worker) group(inTransaction, shared bool) {
	var reads, writes [group]uint64
	var values [group][]byte
	for i := range reads {
		reads[i], writes[i] = w.draw(shared), w.draw(shared)
		values[i] = w.value(writes[i])
	}
	put := func(txn *badger.Txn) error {
		for i, number := range writes {
			if err := txn.Set(key(number), values[i]); err != nil {
				return err
			}
		}
		return nil
	}
	if inTransaction {
		w.retried(func(txn *badger.Txn) error {
			for _, number := range reads {
				get(txn, number)
			}
			return put(txn)
		})
		return
	}
	for _, number := range reads {
		fail(w.db.View(func(txn *badger.Txn) error {
			get(txn, number)
			return nil
		}))
	}
	fail(w.db.Update(put))
}

func (b *bench) load() {
	batch := b.db.NewWriteBatch()
	for _, number := range rand.New(rand.NewSource(11)).Perm(int(b.num)) {
		fail(batch.Set(key(uint64(number)), value(uint64(number), rand.Uint64(), b.valueSize)))
	}
	fail(batch.Flush())
}

func (b *bench) sum() (sum uint64) {
	fail(b.db.View(func(txn *badger.Txn) error {
		chosen := badger.DefaultIteratorOptions
		chosen.Prefix = []byte(counterFirst)
		it := txn.NewIterator(chosen)
		defer it.Close()
		for it.Rewind(); it.Valid(); it.Next() {
			fail(it.Item().Value(func(found []byte) error {
				sum += decode(found, 0)
				return nil
			}))
		}
		return nil
	}))
	return sum
}

func (b *bench) run(workload string) {
	steps := map[string]func(*worker){
		"load":                nil,
		"overwrite":           (*worker).put,
		"cas":                 (*worker).compareAndSet,
		"increment":           (*worker).increment,
		"batchget":            func(w *worker) { w.group(false, false) },
		"transactions":        func(w *worker) { w.group(true, false) },
		"transactions-shared": func(w *worker) { w.group(true, true) },
	}
	step, known := steps[workload]
	if !known {
		fail(errors.New("there is no workload " + workload))
	}
	before := b.sum()
	b.conflicts.Store(0)
	var ops atomic.Uint64
	start := time.Now()
	if step == nil {
		b.load()
		ops.Store(b.num)
	} else {
		var threads sync.WaitGroup
		for index := range b.threads {
			threads.Add(1)
			go func() {
				defer threads.Done()
				part := func(index int) uint64 { return b.num * uint64(index) / uint64(b.threads) }
				source := rand.New(rand.NewSource(time.Now().UnixNano() + int64(index)))
				w := &worker{bench: b, random: source, first: part(index), end: part(index + 1)}
				done := uint64(0)
				for ; done%16 != 0 || time.Since(start) < b.time; done++ {
					step(w)
				}
				ops.Add(done)
			}()
		}
		threads.Wait()
	}
	seconds := time.Since(start).Seconds()
	if workload == "increment" && b.sum()-before != ops.Load() {
		fail(errors.New("increments were lost"))
	}
	fmt.Printf("{\"workload\": %q, \"ops\": %d, \"seconds\": %.3f, \"ops_per_second\": %.0f, "+
		"\"conflicts\": %d}\n", workload, ops.Load(), seconds, float64(ops.Load())/seconds,
		b.conflicts.Load())
}

func main() {
	if len(os.Args) != 7 {
		fail(errors.New("usage: badger DIR WORKLOAD,... NUM VALUE_SIZE THREADS SECONDS"))
	}
	number := func(at int) int {
		parsed, err := strconv.Atoi(os.Args[at])
		fail(err)
		return parsed
	}
	chosen := badger.DefaultOptions(os.Args[1]).WithLoggingLevel(badger.ERROR).
		WithCompression(options.None).WithBlockCacheSize(256 << 20)
	db, err := badger.Open(chosen)
	fail(err)
	b := &bench{db: db, num: uint64(number(3)), valueSize: number(4), threads: number(5)}
	b.time = time.Duration(number(6)) * time.Second
	if b.num < 1 || b.valueSize < 16 || b.threads < 1 {
		fail(errors.New("too few of something"))
	}
	for _, workload := range strings.Split(os.Args[2], ",") {
		b.run(workload)
	}
	fail(db.Close())
}
