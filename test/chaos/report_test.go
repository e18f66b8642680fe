package chaos

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// file returns the path of a file that the run leaves behind.
func (s *site) file(name string) string {
	return filepath.Join(s.dir, strings.ReplaceAll(name, " ", "-"))
}

// report says what the run did. If the run failed, report also writes all that is known of it to files, and says how
// to run it again.
func (s *site) report(seed uint64) {
	unknown, refused := 0, 0
	for _, op := range s.traffic.operations {
		if op.Unknown != "" {
			unknown++
		}
		if op.Refusal != "" {
			refused++
		}
	}
	s.t.Logf("%d operations, %d refused, %d of unknown outcome; faults: %s", len(s.traffic.operations), refused, unknown, s.tally())
	if !s.t.Failed() {
		return
	}
	s.leave("operations.json", s.traffic.operations)
	var steps []string
	for _, st := range newReplay(s.traffic.started, s.history.sofar()).steps {
		steps = append(steps, fmt.Sprintf("%+v", st))
	}
	s.leave("steps.json", steps)
	s.t.Logf("schedule, logs and histories are in %s", s.dir)
	s.t.Logf("run it again: go test ./test/chaos -run TestChaos -seeds %d -duration %s", seed, *duration)
}

func (s *site) tally() string {
	var list []string
	for name, n := range s.struck {
		list = append(list, fmt.Sprintf("%s %d", name, n))
	}
	slices.Sort(list)
	return strings.Join(list, ", ")
}

// leave writes a value to a file.
func (s *site) leave(name string, value any) {
	data, err := json.MarshalIndent(value, "", " ")
	if err == nil {
		err = os.WriteFile(s.file(name), data, 0o600)
	}
	if err != nil {
		s.t.Error(err)
	}
}
