package main

// Runs a workload, and compares a whole store with what was written to it.

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/dgraph-io/badger/v4"
)

// lookEvery is how many pairs of a whole scan come between two looks at the clock.
const lookEvery = 64

// errEnough ends a visit without being an error of it.
var errEnough = errors.New("enough")

type task struct {
	shape
	db         *badger.DB
	workload   string
	size       int
	ops        uint64
	most, rest time.Duration
	// How long it took to open the store.
	opening time.Duration
}

type tally struct {
	reads, writes         histogram
	ops, pairs, userBytes uint64
}

// run does the work, waits until the engine is at rest, and prints the JSON object.
func (t *task) run() {
	stop := make(chan struct{})
	var collector sync.WaitGroup
	collector.Go(func() {
		for {
			select {
			case <-stop:
				return
			case <-time.After(gcEvery):
				collect(t.db)
			}
		}
	})
	ticks, begun := processorTicks(), time.Now()
	sum := &tally{}
	switch {
	case t.workload == "open":
		// It is timed always.
	case t.workload == "fullscan", t.workload == "keysonly":
		t.whole(sum, begun)
	case known(t.workload):
		t.workers(sum, begun)
	default:
		fail(errors.New("there is no workload " + t.workload))
	}
	seconds, workTicks := time.Since(begun).Seconds(), processorTicks()-ticks
	close(stop)
	collector.Wait()
	rest, rested := time.Duration(0), true
	if t.rest > 0 {
		restBegun := time.Now()
		for {
			var waited time.Duration
			waited, rested = waitForRest(t.rest - time.Since(restBegun))
			rest = time.Since(restBegun)
			if rested {
				rest -= quiet
			}
			if !rested || waited >= t.rest || !collect(t.db) {
				break
			}
		}
	}
	fmt.Printf("{\"open_seconds\": %.6f, \"ops\": %d, \"pairs\": %d, "+
		"\"seconds\": %.6f, \"user_bytes\": %d, "+
		"\"rest_seconds\": %.3f, \"rested\": %t, \"processor_seconds\": %.2f, "+
		"\"processor_seconds_at_rest\": %.2f, \"written_bytes\": %d, \"peak_rss_bytes\": %d, "+
		"\"reads\": %s, \"writes\": %s}\n", t.opening.Seconds(), sum.ops, sum.pairs,
		seconds, sum.userBytes, max(0, rest.Seconds()), rested, float64(workTicks)/100,
		float64(processorTicks()-ticks)/100, writtenBytes(), counter("status", "VmHWM:")*1024,
		sum.reads.json(), sum.writes.json())
}

func (t *task) workers(sum *tally, begun time.Time) {
	var running sync.WaitGroup
	parts := make([]tally, t.threads)
	for thread := range t.threads {
		ops := t.ops / t.threads
		if thread < t.ops%t.threads {
			ops++
		}
		running.Go(func() { t.work(&parts[thread], thread, ops, begun) })
	}
	running.Wait()
	for at := range parts {
		sum.reads.merge(&parts[at].reads)
		sum.writes.merge(&parts[at].writes)
		sum.ops += parts[at].ops
		sum.pairs += parts[at].pairs
		sum.userBytes += parts[at].userBytes
	}
}

// work is one thread. What it takes to make a value counts for all engines alike.
func (t *task) work(part *tally, thread, ops uint64, begun time.Time) {
	from := newStream(t.workload, t.shape, thread)
	for ; part.ops < ops; part.ops++ {
		op := from.next()
		start := time.Now()
		if start.Sub(begun) > t.most {
			return
		}
		switch op.kind {
		case put:
			t.put(part, op)
		case get:
			t.get(op.number)
		case getMissing:
			fail(t.db.View(func(txn *badger.Txn) error {
				_, err := txn.Get(missingKey(op.number))
				if err == nil {
					return fmt.Errorf("a key beside %d was found", op.number)
				}
				if errors.Is(err, badger.ErrKeyNotFound) {
					return nil
				}
				return err
			}))
		case scan:
			t.scan(part, op)
		case syncedPut:
			t.put(part, op)
			fail(t.db.Sync())
		case readModifyWrite:
			t.get(op.number)
			t.put(part, op)
		case remove:
			key := keyOf(op.number)
			part.userBytes += uint64(len(key))
			fail(t.db.Update(func(txn *badger.Txn) error { return txn.Delete(key) }))
		}
		taken := uint64(time.Since(start))
		switch op.kind {
		case put, syncedPut, readModifyWrite, remove:
			part.writes.add(taken)
		default:
			part.reads.add(taken)
		}
	}
}

func (t *task) put(part *tally, op operation) {
	key, made := keyOf(op.number), value(op.number, op.version, t.size)
	part.userBytes += uint64(len(key) + len(made))
	fail(t.db.Update(func(txn *badger.Txn) error { return txn.Set(key, made) }))
}

func (t *task) get(number uint64) {
	fail(t.db.View(func(txn *badger.Txn) error {
		item, err := txn.Get(keyOf(number))
		if err != nil {
			return fmt.Errorf("key %d: %w", number, err)
		}
		return item.Value(func(found []byte) error {
			_, err := check(number, found, t.size)
			return err
		})
	}))
}

// order says that no key of those that were loaded is left out, and that what was inserted behind
// them is in order.
type order struct{ next, keys, seen uint64 }

func (o *order) step(key []byte) (uint64, error) {
	number, err := numberOf(key)
	if err == nil && (number < o.next || (number > o.next && o.next < o.keys)) {
		err = fmt.Errorf("key %d came where %d was due", number, o.next)
	}
	o.next = number + 1
	o.seen++
	return number, err
}

// visit calls for pairs in order, the first at or behind `from`; without values where only keys
// are asked for.
func visit(
	db *badger.DB, from, pairs uint64, keysOnly bool, each func(key, value []byte) error,
) {
	fail(db.View(func(txn *badger.Txn) error {
		chosen := badger.DefaultIteratorOptions
		chosen.PrefetchValues = !keysOnly
		chosen.PrefetchSize = int(min(pairs, 100))
		it := txn.NewIterator(chosen)
		defer it.Close()
		seen := uint64(0)
		for it.Seek(keyOf(from)); it.Valid(); it.Next() {
			item, err := it.Item(), error(nil)
			if keysOnly {
				err = each(item.Key(), nil)
			} else {
				err = item.Value(func(found []byte) error { return each(item.Key(), found) })
			}
			if errors.Is(err, errEnough) {
				return nil
			}
			if seen++; err != nil || seen == pairs {
				return err
			}
		}
		return nil
	}))
}

func (t *task) scan(part *tally, op operation) {
	seen := order{next: op.number, keys: t.keys}
	visit(t.db, op.number, op.pairs, false, func(key, found []byte) error {
		number, err := seen.step(key)
		if err == nil {
			_, err = check(number, found, t.size)
		}
		return err
	})
	part.pairs += seen.seen
	if seen.seen < min(op.pairs, t.keys-op.number) {
		fail(fmt.Errorf("a scan from %d ended after %d pairs", op.number, seen.seen))
	}
}

// whole visits all pairs or all keys, once, or as many as the time allows.
func (t *task) whole(sum *tally, begun time.Time) {
	keysOnly, seen, late := t.workload == "keysonly", order{keys: t.keys}, false
	visit(t.db, 0, math.MaxInt64, keysOnly, func(key, found []byte) error {
		number, err := seen.step(key)
		if err == nil && !keysOnly {
			_, err = check(number, found, t.size)
		}
		if late = seen.seen%lookEvery == 0 && time.Since(begun) >= t.most; err == nil && late {
			return errEnough
		}
		return err
	})
	if !late && seen.next < t.keys {
		fail(fmt.Errorf("the scan ended before key %d", seen.next))
	}
	sum.ops, sum.pairs = seen.seen, seen.seen
}

// verify repeats the work of a history, `workload:stage:operations,…`, and compares the newest
// version of every key.
func verify(db *badger.DB, s shape, size int, history string) {
	newest := map[uint64]uint64{}
	for entry := range strings.SplitSeq(history, ",") {
		parts := strings.Split(entry, ":")
		if len(parts) != 3 {
			fail(fmt.Errorf("history: `%s` is not workload:stage:operations", entry))
		}
		stage, err := strconv.ParseUint(parts[1], 10, 64)
		fail(err)
		ops, err := strconv.ParseUint(parts[2], 10, 64)
		fail(err)
		from := newStream(parts[0], shape{s.keys, s.seed, stage, 1}, 0)
		for range ops {
			op := from.next()
			switch {
			case op.kind == readModifyWrite || op.number >= s.keys:
				fail(fmt.Errorf("history: %s does more than put and delete", parts[0]))
			case op.kind == put || op.kind == syncedPut:
				newest[op.number] = op.version
			case op.kind == remove:
				delete(newest, op.number)
			}
		}
	}
	seen := 0
	visit(db, 0, math.MaxInt64, false, func(key, found []byte) error {
		number, err := numberOf(key)
		if err != nil {
			return err
		}
		version, err := check(number, found, size)
		if err != nil {
			return err
		}
		if expected, known := newest[number]; !known || expected != version {
			return fmt.Errorf("key %d in version %d is not what was written last", number, version)
		}
		seen++
		return nil
	})
	if seen != len(newest) {
		fail(fmt.Errorf("%d keys of %d are missing", len(newest)-seen, len(newest)))
	}
	fmt.Printf("{\"verified\": %d}\n", seen)
}
