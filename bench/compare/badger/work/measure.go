package main

// Latencies, and what the kernel knows about this process; as the driver in Rust has both.

import (
	"fmt"
	"math"
	"math/bits"
	"os"
	"strconv"
	"strings"
	"time"
)

const (
	stepsBits  = 6
	steps      = 1 << stepsBits
	look       = 50 * time.Millisecond
	quiet      = 500 * time.Millisecond
	quietTicks = 2
	quietBytes = 64 << 10
)

// histogram counts nanoseconds in classes of at most 1.6 % width.
type histogram struct {
	classes             [steps * 59]uint64
	count, sum, longest uint64
}

func class(nanoseconds uint64) int {
	shift := bits.Len64(nanoseconds) - stepsBits - 1
	if shift < 0 {
		return int(nanoseconds)
	}
	return (shift+1)*steps + int(nanoseconds>>shift) - steps
}

// bound is the largest number of a class.
func bound(class int) uint64 {
	if class < steps {
		return uint64(class)
	}
	return uint64(class%steps+steps+1)<<(class/steps-1) - 1
}

func (h *histogram) add(nanoseconds uint64) {
	h.classes[class(nanoseconds)]++
	h.count++
	h.sum += nanoseconds
	h.longest = max(h.longest, nanoseconds)
}

func (h *histogram) merge(other *histogram) {
	for at, count := range other.classes {
		h.classes[at] += count
	}
	h.count += other.count
	h.sum += other.sum
	h.longest = max(h.longest, other.longest)
}

func (h *histogram) quantile(share float64) uint64 {
	left := uint64(math.Ceil(share * float64(h.count)))
	for at, count := range h.classes {
		if left <= count {
			return min(bound(at), h.longest)
		}
		left -= count
	}
	return h.longest
}

func (h *histogram) json() string {
	micro := func(nanoseconds uint64) float64 { return float64(nanoseconds) / 1e3 }
	return fmt.Sprintf("{\"count\": %d, \"mean_us\": %.2f, \"p50_us\": %.2f, \"p99_us\": %.2f, "+
		"\"p999_us\": %.2f, \"max_us\": %.2f}", h.count,
		micro(h.sum)/float64(max(h.count, 1)), micro(h.quantile(0.5)), micro(h.quantile(0.99)),
		micro(h.quantile(0.999)), micro(h.longest))
}

// counter is the number behind a name in a file of /proc/self.
func counter(file, name string) uint64 {
	text, _ := os.ReadFile("/proc/self/" + file)
	for line := range strings.Lines(string(text)) {
		if rest, found := strings.CutPrefix(line, name); found {
			number, _ := strconv.ParseUint(strings.Fields(rest)[0], 10, 64)
			return number
		}
	}
	return 0
}

func writtenBytes() uint64 {
	return counter("io", "write_bytes:") - counter("io", "cancelled_write_bytes:")
}

// processorTicks is the time on processors of all threads, in hundredths of a second.
func processorTicks() (sum uint64) {
	text, _ := os.ReadFile("/proc/self/stat")
	fields := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
	for _, field := range fields[11:13] {
		number, _ := strconv.ParseUint(field, 10, 64)
		sum += number
	}
	return sum
}

// waitForRest returns how long it took until nothing was done in the background.
func waitForRest(limit time.Duration) (time.Duration, bool) {
	begun := time.Now()
	since, ticks, written := begun, processorTicks(), counter("io", "write_bytes:")
	for time.Since(begun) < limit {
		time.Sleep(look)
		nowTicks, nowWritten := processorTicks(), counter("io", "write_bytes:")
		if nowTicks > ticks+quietTicks || nowWritten > written+quietBytes {
			since, ticks, written = time.Now(), nowTicks, nowWritten
		} else if time.Since(since) >= quiet {
			return since.Sub(begun), true
		}
	}
	return limit, false
}
