package main

import (
	"encoding/json"
	"os"
	"testing"
)

func TestTheWorkIsWhatTheSpecificationSays(t *testing.T) {
	text, err := os.ReadFile("../../generator.json")
	if err != nil {
		t.Fatal(err)
	}
	var told struct {
		Keys, Seed, Stage, Threads, Thread, Ops uint64
		Value                                   int
		Checksums                               map[string]string
	}
	if err := json.Unmarshal(text, &told); err != nil {
		t.Fatal(err)
	}
	s := shape{told.Keys, told.Seed, told.Stage, told.Threads}
	for workload, wanted := range told.Checksums {
		if sum := checksum(workload, s, told.Thread, told.Ops, told.Value); sum != wanted {
			t.Errorf("%s: %s instead of %s", workload, sum, wanted)
		}
	}
}

func TestAScanIsKnownByItsNumberOfPairs(t *testing.T) {
	if pairs := pairsOfScan("scan10000"); pairs != 10_000 {
		t.Errorf("scan10000 reads %d pairs", pairs)
	}
	for _, wrong := range []string{"scan", "scan0", "scan-1", "scanning", "fullscan", "100"} {
		if known(wrong) {
			t.Errorf("%s is known", wrong)
		}
	}
}

func TestClassesAreNarrowAndInOrder(t *testing.T) {
	for _, nanoseconds := range []uint64{0, 1, 63, 64, 65, 127, 128, 1000, 123_456_789} {
		top := bound(class(nanoseconds))
		if top < nanoseconds || top-nanoseconds > nanoseconds/steps {
			t.Errorf("%d is in a class up to %d", nanoseconds, top)
		}
		if class(top+1) != class(top)+1 {
			t.Errorf("no class follows that up to %d", top)
		}
	}
}
