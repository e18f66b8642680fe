package e2e

import (
	"strings"
	"testing"

	"github.com/kcp-ipam/ipam/test/framework"
)

// ran is a command line that was run, to be looked at.
type ran struct {
	framework.Ran
	t    *testing.T
	args []string
}

// cli runs command lines as somebody.
type cli struct {
	framework.CLI
	t *testing.T
}

func (c cli) run(args ...string) ran {
	c.t.Helper()
	return ran{c.Run(c.t, args...), c.t, args}
}

// ok fails the test unless a command succeeds, and returns its data.
func (c cli) ok(args ...string) string {
	c.t.Helper()
	return c.run(args...).ends(0).Out
}

// ends fails the test unless the command has ended with this code.
func (r ran) ends(code int) ran {
	r.t.Helper()
	if r.Code != code {
		r.t.Fatalf("kubectl-ipam %s ended with %d; want %d\nstdout: %s\nstderr: %s", strings.Join(r.args, " "), r.Code, code, r.Out, r.Err)
	}
	return r
}

// says fails the test unless the command has said all of this to people, and given no data.
func (r ran) says(words ...string) {
	r.t.Helper()
	for _, w := range words {
		if !strings.Contains(r.Err, w) {
			r.t.Errorf("kubectl-ipam %s says %q; want it to say %q", strings.Join(r.args, " "), r.Err, w)
		}
	}
	if r.Out != "" {
		r.t.Errorf("kubectl-ipam %s gives the data %q", strings.Join(r.args, " "), r.Out)
	}
}

// shows fails the test unless some data has all of these words.
func shows(t *testing.T, data string, words ...string) {
	t.Helper()
	for _, w := range words {
		if !strings.Contains(data, w) {
			t.Errorf("the data has no %q:\n%s", w, data)
		}
	}
}
