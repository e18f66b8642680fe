package framework

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/kcp-ipam/ipam/test/must"
)

const (
	lastLines  = 60
	lastFaults = 20
	lineWidth  = 500
)

// Log returns the lines that the controller has logged.
func (c Controller) Log(t testing.TB) []string {
	t.Helper()
	data := must.Get(os.ReadFile(c.process.Log()))(t)
	return strings.Split(strings.TrimSpace(string(data)), "\n")
}

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
		t.Logf("end of the controller's log:\n%s", tail(lines, lastLines))
	})
}

// fault matches what klog writes of an error, and the first line of a crash.
var fault = regexp.MustCompile(`^([EF]\d{4} |panic: |fatal error: )`)

// showFaults prints the last errors in the logs of the servers of kcp.
func showFaults(dir string) {
	files, _ := filepath.Glob(filepath.Join(dir, "*.log")) // The pattern is well formed.
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			fmt.Fprintln(os.Stderr, "framework:", err)
			continue
		}
		faults := slices.DeleteFunc(strings.Split(string(data), "\n"), func(line string) bool { return !fault.MatchString(line) })
		fmt.Fprintf(os.Stderr, "framework: last of %d errors in %s:\n%s\n", len(faults), filepath.Base(file), tail(faults, lastFaults))
	}
}

// tail returns the last so many of the lines, each as far as lineWidth.
func tail(lines []string, count int) string {
	lines = slices.Clone(lines[max(0, len(lines)-count):])
	for i, line := range lines {
		lines[i] = line[:min(len(line), lineWidth)]
	}
	return strings.Join(lines, "\n")
}
