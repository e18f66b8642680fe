package index_test

import (
	"testing"

	"pgregory.net/rapid"
)

// TestIndex_AgreesWithItsGoldenTwin takes random steps in every window and compares the index with its
// golden twin after each.
func TestIndex_AgreesWithItsGoldenTwin(t *testing.T) {
	for _, window := range windows {
		t.Run(window, rapid.MakeCheck(func(t *rapid.T) { model(t, window) }))
	}
}

func model(t *rapid.T, window string) {
	m, bytes := newMachine(window), rapid.Byte()
	actions := map[string]func(*rapid.T){}
	for _, step := range steps {
		actions[step.name] = func(t *rapid.T) {
			at := place{bytes.Draw(t, "anchor"), bytes.Draw(t, "length"), bytes.Draw(t, "flip")}
			if err := step.do(m, at); err != nil {
				t.Fatalf("do: %v", err)
			}
		}
	}
	t.Repeat(actions)
}

// FuzzIndex reads a window from the first byte and a step from every four bytes
// that follow: its place in steps, then anchor, length and flip.
func FuzzIndex(f *testing.F) {
	const longest = 64 // steps; more find nothing new and slow the fuzzer down
	f.Fuzz(func(t *testing.T, input []byte) {
		if len(input) == 0 {
			return
		}
		m := newMachine(windows[int(input[0])%len(windows)])
		input = input[1:]
		for i := 0; i+4 <= min(len(input), 4*longest); i += 4 {
			step := steps[int(input[i])%len(steps)]
			if err := step.do(m, place{input[i+1], input[i+2], input[i+3]}); err != nil {
				t.Fatalf("step %d, %s: %v", i/4, step.name, err)
			}
		}
	})
}
