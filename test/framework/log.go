package framework

import (
	"os"
	"strings"
	"testing"
)

const (
	lastLines = 60
	lineWidth = 500
)

// Log returns the lines that the controller has logged.
func (p *Platform) Log(t testing.TB) []string {
	t.Helper()
	data, err := os.ReadFile(p.controller.Log())
	if err != nil {
		t.Fatal(err)
	}
	return strings.Split(strings.TrimSpace(string(data)), "\n")
}

// logOnFailure has the end of the controller's log printed if the test fails.
func (p *Platform) logOnFailure(t testing.TB) { showOnFailure(t, p.controller.Log()) }

// showOnFailure has the end of a controller's log printed if the test fails.
func showOnFailure(t testing.TB, file string) {
	t.Cleanup(func() {
		if !t.Failed() {
			return
		}
		data, err := os.ReadFile(file)
		if err != nil {
			t.Logf("the controller has written no log: %v", err)
			return
		}
		lines := strings.Split(strings.TrimSpace(string(data)), "\n")
		lines = lines[max(0, len(lines)-lastLines):]
		for i, line := range lines {
			lines[i] = line[:min(len(line), lineWidth)]
		}
		t.Logf("end of the controller's log:\n%s", strings.Join(lines, "\n"))
	})
}
