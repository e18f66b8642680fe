package framework

import (
	"bufio"
	"context"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// Watching is a command line that runs until it is interrupted.
type Watching struct {
	cmd   *exec.Cmd
	lines *bufio.Scanner
	line  string
}

// Watch starts a command line that prints lines as things change.
func (c CLI) Watch(t testing.TB, args ...string) *Watching {
	t.Helper()
	bounded, cancel := context.WithTimeout(t.Context(), Patience)
	t.Cleanup(cancel)
	cmd := exec.CommandContext(bounded, c.Binary, args...)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+c.Kubeconfig)
	cmd.Stderr = t.Output()
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	return &Watching{cmd: cmd, lines: bufio.NewScanner(out)}
}

// Shows fails the test unless the program prints a line with all these words, now or later.
func (w *Watching) Shows(t testing.TB, words ...string) string {
	t.Helper()
	for w.lines.Scan() {
		w.line = w.lines.Text()
		if containsAll(w.line, words) {
			return w.line
		}
	}
	t.Fatalf("no line had %q; the last one was %q", words, w.line)
	return ""
}

// Interrupt ends the program as Ctrl-C does, and returns its exit code.
func (w *Watching) Interrupt(t testing.TB) int {
	t.Helper()
	if err := w.cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	for w.lines.Scan() { // to the end of the pipe, before Wait closes it
	}
	_ = w.cmd.Wait() // the code says how it ended
	return w.cmd.ProcessState.ExitCode()
}

func containsAll(line string, words []string) bool {
	for _, word := range words {
		if !strings.Contains(line, word) {
			return false
		}
	}
	return true
}
