package wait_test

import (
	"testing"

	"pgregory.net/rapid"
)

// After any steps a list gives the same answers as its twin, and so does a round while the list changes.
func TestList_AnswersAsItsTwin(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m, bytes := newMachine(), rapid.Byte()
		actions := map[string]func(*rapid.T){"": func(t *rapid.T) {
			if err := m.compare(); err != nil {
				t.Fatalf("compare: %v", err)
			}
		}}
		for _, step := range steps {
			actions[step.name] = func(t *rapid.T) {
				if err := step.do(m, args{bytes.Draw(t, "key"), bytes.Draw(t, "tenant"), bytes.Draw(t, "things")}); err != nil {
					t.Fatalf("do: %v", err)
				}
			}
		}
		t.Repeat(actions)
	})
}

// FuzzList reads a step from every four bytes: its index in steps, and its arguments.
func FuzzList(f *testing.F) {
	const longest = 64 // steps; more find nothing new and slow the fuzzer down
	f.Fuzz(func(t *testing.T, input []byte) {
		m := newMachine()
		for i := 0; i+4 <= min(len(input), 4*longest); i += 4 {
			step := steps[int(input[i])%len(steps)]
			if err := step.do(m, args(input[i+1:i+4])); err != nil {
				t.Fatalf("step %d, %s: %v", i/4, step.name, err)
			}
			if err := m.compare(); err != nil {
				t.Fatalf("step %d, %s: %v", i/4, step.name, err)
			}
		}
	})
}
