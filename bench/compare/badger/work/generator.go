package main

// The work itself, as ../../generator.md specifies it and ../../generator.json proves it.

import (
	"encoding/binary"
	"fmt"
	"math/bits"
	"strconv"
	"strings"
)

const (
	golden    = 0x9E3779B97F4A7C15
	poolBytes = 2 << 20
	poolSeed  = 7
	loadSalt  = 11
	zipfSalt  = 13
	stageKeys = 1 << 32
)

func mix(number uint64) uint64 {
	z := number + golden
	z = (z ^ z>>30) * 0xBF58476D1CE4E5B9
	z = (z ^ z>>27) * 0x94D049BB133111EB
	return z ^ z>>31
}

// random is SplitMix64.
type random uint64

func (r *random) next() uint64 {
	drawn := mix(uint64(*r))
	*r += golden
	return drawn
}

func (r *random) below(bound uint64) uint64 { return (r.next() >> 32) * bound >> 32 }

func (r *random) unit() float64 { return float64(r.next()>>11) * (1.0 / (1 << 53)) }

// permute returns the place of an index in an order that looks random.
func permute(count, salt, index uint64) uint64 {
	half := max(1, (bits.Len64(count-1)+1)/2)
	mask := uint64(1)<<half - 1
	for at := index; ; {
		left, right := at>>half, at&mask
		for turn := uint64(1); turn <= 4; turn++ {
			left, right = right, left^(mix(right^salt<<8^turn<<56)&mask)
		}
		if at = left<<half | right; at < count {
			return at
		}
	}
}

// pow100 is x to the power of a hundred, by multiplications in a fixed order.
func pow100(x float64) float64 {
	x4 := (x * x) * (x * x)
	x16 := (x4 * x4) * (x4 * x4)
	x32 := x16 * x16
	return (x32 * x32) * x32 * x4
}

// spread returns what the hundredth root of count + 1 exceeds 1 by.
func spread(count uint64) float64 {
	low, high := 1.0, 2.0
	for range 64 {
		if middle := (low + high) * 0.5; pow100(middle) <= float64(count+1) {
			low = middle
		} else {
			high = middle
		}
	}
	return low - 1.0
}

var pool = func() []byte {
	r, made := random(mix(poolSeed)), make([]byte, 0, poolBytes)
	for range poolBytes / 8 {
		made = binary.LittleEndian.AppendUint64(made, r.next())
	}
	return made
}()

func filling(number, version uint64, size int) []byte {
	at := mix(number^bits.RotateLeft64(version, 32)) % uint64(poolBytes-size)
	return pool[at : at+uint64(size)]
}

// value makes the value of a number in a version.
func value(number, version uint64, size int) []byte {
	made := binary.LittleEndian.AppendUint64(make([]byte, 0, size), number)
	made = binary.LittleEndian.AppendUint64(made, version)
	return append(made, filling(number, version, size-16)...)
}

// check compares every byte of a value that was read, and returns its version.
func check(number uint64, found []byte, size int) (uint64, error) {
	if len(found) != size || binary.LittleEndian.Uint64(found) != number {
		return 0, fmt.Errorf("key %d has a value of %d bytes of another key", number, len(found))
	}
	version := binary.LittleEndian.Uint64(found[8:])
	if string(found[16:]) != string(filling(number, version, size-16)) {
		return 0, fmt.Errorf("the value of key %d, version %d, is damaged", number, version)
	}
	return version, nil
}

func keyOf(number uint64) []byte { return fmt.Appendf(nil, "%016d", number*2) }

func missingKey(number uint64) []byte { return fmt.Appendf(nil, "%016d", number*2+1) }

// numberOf returns the number whose key this is.
func numberOf(key []byte) (uint64, error) {
	doubled, err := strconv.ParseUint(string(key), 10, 64)
	if err != nil || len(key) != 16 || doubled%2 != 0 {
		return 0, fmt.Errorf("a key that nobody wrote: %q", key)
	}
	return doubled / 2, nil
}

const (
	put = iota
	get
	scan
	readModifyWrite
	getMissing
	remove
	syncedPut
)

// Of `turns`: every so manieth put is synced, and every so manieth operation reads so many pairs.
const syncedEvery, scannedEvery, scannedPairs = 64, 32, 100

type operation struct {
	kind                   int
	number, pairs, version uint64
}

type shape struct{ keys, seed, stage, threads uint64 }

// stream makes the operations of one thread.
type stream struct {
	shape
	workload       string
	thread         uint64
	random         random
	spread         float64
	done, inserted uint64
}

func newStream(workload string, s shape, thread uint64) *stream {
	start := random(mix(mix(mix(s.seed)^s.stage) ^ thread))
	return &stream{
		shape: s, workload: workload, thread: thread, random: start, spread: spread(s.keys),
	}
}

func known(workload string) bool {
	switch workload {
	case "load", "load-ordered", "overwrite-uniform", "overwrite-zipf", "delete-uniform", "get",
		"missing", "synced", "turns":
		return true
	}
	if pairsOfScan(workload) > 0 {
		return true
	}
	letter, mixed := strings.CutPrefix(workload, "ycsb-")
	return mixed && len(letter) == 1 && strings.Contains("abcdef", letter)
}

// pairsOfScan is what a workload such as `scan100` reads at a time; 0 if it is no such workload.
func pairsOfScan(workload string) uint64 {
	digits, scans := strings.CutPrefix(workload, "scan")
	pairs, err := strconv.ParseUint(digits, 10, 64)
	if !scans || err != nil {
		return 0
	}
	return pairs
}

func (s *stream) next() operation {
	index := s.done*s.threads + s.thread
	s.done++
	made := operation{version: s.stage<<40 + index}
	switch s.workload {
	case "load", "synced":
		made.kind, made.number = put, permute(s.keys, loadSalt+s.seed, index%s.keys)
	case "load-ordered":
		made.kind, made.number = put, index%s.keys
	case "overwrite-uniform":
		made.kind, made.number = put, s.random.below(s.keys)
	case "overwrite-zipf":
		made.kind, made.number = put, s.hot()
	case "delete-uniform":
		made.kind, made.number = remove, s.random.below(s.keys)
	case "get":
		made.kind, made.number = get, s.random.below(s.keys)
	case "missing":
		made.kind, made.number = getMissing, s.random.below(s.keys)
	case "turns":
		made.kind, made.number, made.pairs = s.turns(s.done - 1)
	default:
		if pairs := pairsOfScan(s.workload); pairs > 0 {
			made.kind, made.number, made.pairs = scan, s.random.below(s.keys), pairs
			break
		}
		made.kind, made.number, made.pairs = s.ycsb(s.workload[len(s.workload)-1])
	}
	return made
}

// turns puts, by turns of a quarter of the keys: some synced, the same with scans, and none synced.
func (s *stream) turns(done uint64) (kind int, number, pairs uint64) {
	turn := done / max(s.keys/4, 1) % 3
	number = s.random.below(s.keys)
	switch {
	case turn == 1 && done%scannedEvery == 0:
		return scan, number, scannedPairs
	case turn < 2 && done%syncedEvery == 1:
		return syncedPut, number, 0
	}
	return put, number, 0
}

func (s *stream) ycsb(letter byte) (kind int, number, pairs uint64) {
	dice := s.random.below(100)
	switch {
	case letter == 'a' && dice < 50, letter == 'b' && dice < 5:
		return put, s.hot(), 0
	case (letter == 'd' || letter == 'e') && dice < 5:
		s.inserted++
		return put, s.insertion(s.inserted - 1), 0
	case letter == 'd':
		back := s.rank()
		if back < s.inserted {
			return get, s.insertion(s.inserted - 1 - back), 0
		}
		return get, s.keys - 1 - (back - s.inserted), 0
	case letter == 'e':
		start := s.hot()
		return scan, start, 1 + s.random.below(100)
	case letter == 'f' && dice < 50:
		return readModifyWrite, s.hot(), 0
	}
	return get, s.hot(), 0
}

// rank is below keys and has a share of about rank^-0.99.
func (s *stream) rank() uint64 {
	// The conversion keeps compilers from fusing the two into one operation that rounds once.
	x := 1.0 + float64(s.random.unit()*s.spread)
	return min(max(uint64(pow100(x)), 1)-1, s.keys-1)
}

func (s *stream) hot() uint64 { return permute(s.keys, zipfSalt+s.seed, s.rank()) }

func (s *stream) insertion(before uint64) uint64 {
	return (s.stage+1)*stageKeys + before*s.threads + s.thread
}

// checksum is FNV-1a over kinds, keys and values of the first operations of a thread.
func checksum(workload string, s shape, thread, ops uint64, size int) string {
	sum := uint64(0xCBF29CE484222325)
	add := func(data []byte) {
		for _, one := range data {
			sum = (sum ^ uint64(one)) * 0x100000001B3
		}
	}
	from := newStream(workload, s, thread)
	for range ops {
		op := from.next()
		add([]byte{byte(op.kind), byte(op.pairs)})
		if op.kind == getMissing {
			add(missingKey(op.number))
		} else {
			add(keyOf(op.number))
		}
		if op.kind == put || op.kind == readModifyWrite || op.kind == syncedPut {
			add(value(op.number, op.version, size))
		}
	}
	return fmt.Sprintf("%016x", sum)
}
