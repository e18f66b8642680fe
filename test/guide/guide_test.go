package guide

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/kcp-ipam/ipam/test/framework"
	"github.com/kcp-ipam/ipam/test/framework/local"
	"github.com/kcp-ipam/ipam/test/must"
)

// The pages that start from nothing hold: make run, the steps of getting-started after it, and the pages that say
// that they run against it.
func TestFromNothing(t *testing.T) {
	p := newPlace(t)
	p.follow(t, "docs/getting-started.md", "Install")
	p.follow(t, "docs/getting-started.md", "From nothing")
	p.examples(t, "team-a")
	p.follow(t, "docs/cli.md", "")
	p.follow(t, "docs/moving-in.md", "")
	p.follow(t, "README.md", "A taste of the API")
	p.follow(t, "docs/tenant.md", "")
	p.follow(t, "docs/offer.md", "")
	p.follow(t, "docs/networks.md", "")
	p.follow(t, "docs/operate.md", "")
}

// examples runs the examples in kubectl ipam --help, with a context of make run.
func (p place) examples(t *testing.T, context string) {
	t.Helper()
	shell := p.open(t)
	shell.typed(t, block{commands: fmt.Sprintf(`export KUBECONFIG=$PWD/.run/admin.kubeconfig
kubectl config use-context %s
kubectl ipam --help | sed -n '/^Examples:/,/^Available/p' | grep '^ *kubectl ipam ' | tee examples.sh
test -s examples.sh
. ./examples.sh
kubectl ipam claim release app
`, context)}, done)
	if lines, ok := shell.until(t, isDone); !ok {
		t.Fatalf("an example of kubectl ipam --help failed:\n%s", strings.Join(lines, "\n"))
	}
}

// newPlace returns a clone of the repository, with uncommitted changes, and an environment in which go installs
// programs only for that clone.
func newPlace(t *testing.T, env ...string) place {
	t.Helper()
	root := must.Get(local.ModuleRoot())(t)
	list := exec.CommandContext(t.Context(), "git", "ls-files", "-z", "--cached", "--others", "--exclude-standard")
	list.Dir = root
	files := must.Get(list.Output())(t)
	dir, programs := t.TempDir(), t.TempDir()
	for file := range strings.SplitSeq(strings.Trim(string(files), "\x00"), "\x00") {
		must.Do(t, copied(filepath.Join(root, file), filepath.Join(dir, file)))
	}
	path := []string{programs, filepath.Dir(framework.Kubectl(t)), os.Getenv("PATH")}
	return place{dir: dir, env: append(os.Environ(), append(env,
		"GOBIN="+programs, "PATH="+strings.Join(path, string(filepath.ListSeparator)))...)}
}

// copied copies a file with its mode. A file that git lists but that does not exist is left out.
func copied(from, to string) error {
	info, err := os.Stat(from)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	data, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return err
	}
	return os.WriteFile(to, data, info.Mode())
}

// block is a fenced block of commands.
type block struct {
	line       int // of the page, where it begins
	commands   string
	background bool
	// prints is the first line of the output that the page shows; empty if it shows none.
	prints string
}

var fence = regexp.MustCompile("(?ms)^```([^\n]*)\n(.*?)^```$")

// blocksOf returns the commands of a page. With a heading, it returns only those of that chapter.
func blocksOf(t *testing.T, page, heading string) []block {
	t.Helper()
	data := must.Get(os.ReadFile(page))(t)
	text, from, to := string(data), 0, len(data)
	if heading != "" {
		from = strings.Index(text, "\n## "+heading+"\n") + 1
		if from == 0 {
			t.Fatalf("%s has no chapter %q", page, heading)
		}
		if next := strings.Index(text[from:], "\n## "); next >= 0 {
			to = from + next
		}
	}
	var blocks []block
	for _, at := range fence.FindAllStringSubmatchIndex(text[from:to], -1) {
		language, inside := text[from+at[2]:from+at[3]], text[from+at[4]:from+at[5]]
		switch language {
		case "sh", "sh background":
			line := 2 + strings.Count(text[:from+at[0]], "\n")
			blocks = append(blocks, block{line: line, commands: inside, background: language != "sh"})
		case "":
			if len(blocks) == 0 {
				t.Fatalf("%s shows output before any command", page)
			}
			blocks[len(blocks)-1].prints, _, _ = strings.Cut(inside, "\n")
		}
	}
	if len(blocks) == 0 {
		t.Fatalf("%s %s has no commands", page, heading)
	}
	return blocks
}

// isLine reports whether a line is the line that the page shows, whatever the width of columns.
func (b block) isLine(line string) bool {
	return strings.Join(strings.Fields(line), " ") == strings.Join(strings.Fields(b.prints), " ")
}
