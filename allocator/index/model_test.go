package index_test

import (
	"maps"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// TestModel takes random steps in random windows and compares the index with
// its golden twin after each.
func TestModel(t *testing.T) {
	bytes := rapid.Byte()
	rapid.Check(t, func(t *rapid.T) {
		m := newMachine(rapid.SampledFrom(windows).Draw(t, "window"))
		actions := map[string]func(*rapid.T){}
		for name, step := range steps {
			actions[name] = func(t *rapid.T) {
				at := place{bytes.Draw(t, "anchor"), bytes.Draw(t, "length"), bytes.Draw(t, "flip")}
				if err := step(m, at); err != nil {
					t.Fatal(err)
				}
			}
		}
		t.Repeat(actions)
	})
}

// FuzzIndex reads a window and then steps of four bytes from the input.
func FuzzIndex(f *testing.F) {
	names := slices.Sorted(maps.Keys(steps))
	f.Add([]byte{0})
	f.Fuzz(func(t *testing.T, input []byte) {
		if len(input) == 0 {
			return
		}
		m := newMachine(windows[int(input[0])%len(windows)])
		const longest = 64 // steps: more find nothing new and make the fuzzer slow
		for _, b := range slices.Collect(slices.Chunk(input[1:], 4))[:min(len(input[1:])/4, longest)] {
			name := names[int(b[0])%len(names)]
			if err := steps[name](m, place{b[1], b[2], b[3]}); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
		}
	})
}
