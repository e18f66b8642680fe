package guide

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/kcp-ipam/ipam/test/must"
)

// patience is how long a block may take, on a busy machine that compiles in it.
const patience = 5 * time.Minute

// lastLines is how many lines of a shell are shown if the test has failed.
const lastLines = 40

// done is printed after the last line of a block.
const done = "-- the block is done --"

func isDone(line string) bool { return line == done }

// place is a folder and an environment for commands.
type place struct {
	dir string
	env []string
}

// shell is a bash that stops at the first command that fails.
type shell struct {
	in   io.WriteCloser
	out  *bufio.Scanner
	cmd  *exec.Cmd
	rest []string      // what was printed after leave
	left chan struct{} // closed when rest is complete; nil before leave
}

// open starts a shell. It ends with the test, or earlier if its input ends or a command fails.
func (p place) open(t *testing.T) *shell {
	t.Helper()
	cmd := exec.Command("bash", "-e") //nolint:noctx // It ends by its input, and by interrupt.
	cmd.Dir, cmd.Env = p.dir, p.env
	// Ctrl-C would reach exactly this process group.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	in := must.Get(cmd.StdinPipe())(t)
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatalf("os.Pipe: %v", err)
	}
	cmd.Stdout, cmd.Stderr = write, write
	err = errors.Join(cmd.Start(), write.Close())
	if err != nil {
		t.Fatal(err)
	}
	s := &shell{in: in, out: bufio.NewScanner(read), cmd: cmd}
	t.Cleanup(func() {
		s.end(t)
		_ = read.Close()
	})
	return s
}

// typed lets the shell run the commands, and print a last line after them. The commands cannot read what is typed:
// their input is empty.
func (s *shell) typed(t *testing.T, b block, last string) {
	t.Helper()
	script := filepath.Join(t.TempDir(), "block.sh")
	must.Do(t, os.WriteFile(script, []byte(b.commands), 0o600))
	must.Get(fmt.Fprintf(s.in, ". %s </dev/null\nprintf '\\n%s\\n'\n", script, last))(t)
}

// until reads the output up to the line for which isLast is true. found is false if the shell ends before, or takes
// too long.
func (s *shell) until(t *testing.T, isLast func(string) bool) (lines []string, found bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	defer context.AfterFunc(ctx, func() { s.signal(syscall.SIGKILL) })()
	for s.out.Scan() {
		if isLast(s.out.Text()) {
			return lines, true
		}
		lines = append(lines, s.out.Text())
	}
	return lines, false
}

// leave reads all further output, so that no command has to wait for a reader.
func (s *shell) leave() {
	s.left = make(chan struct{})
	go func() {
		defer close(s.left)
		for s.out.Scan() {
			s.rest = append(s.rest, s.out.Text())
		}
	}()
}

// end acts like Ctrl-C, and waits until all processes of the shell are gone.
func (s *shell) end(t *testing.T) {
	t.Helper()
	s.signal(syscall.SIGINT)
	_ = s.in.Close()
	kill := time.AfterFunc(patience, func() { s.signal(syscall.SIGKILL) })
	defer kill.Stop()
	if s.left == nil {
		s.leave()
	}
	<-s.left
	_ = s.cmd.Wait() // Being interrupted is no success.
	if t.Failed() {
		t.Logf("a shell printed at last:\n%s", strings.Join(s.rest[max(0, len(s.rest)-lastLines):], "\n"))
	}
}

// signal sends a signal to all processes of the shell, as long as the shell exists.
func (s *shell) signal(signal syscall.Signal) { _ = syscall.Kill(-s.cmd.Process.Pid, signal) }

// goesOn runs a block that goes on, and returns once the block has printed what the page shows, if the page shows
// anything.
func (s *shell) goesOn(t *testing.T, b block) {
	t.Helper()
	s.typed(t, b, "")
	defer s.leave()
	if b.prints == "" {
		return
	}
	if lines, ok := s.until(t, b.isLine); !ok {
		t.Fatalf("line %d: %q was never printed:\n%s", b.line, b.prints, strings.Join(lines, "\n"))
	}
}

// follow runs the commands of a chapter of a page, or of the whole page if heading is empty.
func (p place) follow(t *testing.T, page, heading string) {
	t.Helper()
	main := p.open(t)
	for _, b := range blocksOf(t, filepath.Join(p.dir, page), heading) {
		if b.background {
			p.open(t).goesOn(t, b)
			continue
		}
		main.typed(t, b, done)
		lines, ok := main.until(t, isDone)
		if !ok {
			t.Fatalf("%s:%d: a command failed:\n%s\n%s", page, b.line, b.commands, strings.Join(lines, "\n"))
		}
		if b.prints != "" && !slices.ContainsFunc(lines, b.isLine) {
			t.Errorf("%s:%d shows the line %q, and prints:\n%s", page, b.line, b.prints, strings.Join(lines, "\n"))
		}
	}
}
