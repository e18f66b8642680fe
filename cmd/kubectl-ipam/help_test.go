package main

import (
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/kcp-ipam/ipam/test/stage"
)

// own returns the commands of this program, without those that cobra adds.
func own(t *testing.T) []*cobra.Command {
	t.Helper()
	var found []*cobra.Command
	var add func(*cobra.Command)
	add = func(cmd *cobra.Command) {
		found = append(found, cmd)
		for _, below := range cmd.Commands() {
			if !below.Hidden && below.Name() != "completion" && below.Name() != "help" {
				add(below)
			}
		}
	}
	add(newRoot(stage.New(t).Session))
	return found
}

// The help of each command explains it, has an example, and fits a terminal. Each command takes the connection flags of
// kubectl.
func TestHelp_Explains(t *testing.T) {
	for _, cmd := range own(t) {
		if cmd.Short == "" || strings.HasSuffix(cmd.Short, ".") {
			t.Errorf("%s is described as %q", cmd.CommandPath(), cmd.Short)
		}
		for _, flag := range []string{"kubeconfig", "context", "namespace", "as", "server"} {
			if cmd.Flag(flag) == nil {
				t.Errorf("%s has no --%s", cmd.CommandPath(), flag)
			}
		}
		if cmd.Long == "" || cmd.Example == "" {
			t.Errorf("the help of %s has %d characters of text and %d of examples; want both", cmd.CommandPath(), len(cmd.Long), len(cmd.Example))
		}
		for line := range strings.Lines(cmd.Long + "\n" + cmd.Example) {
			if length := len([]rune(line)); length > 110 {
				t.Errorf("the help of %s has a line of %d characters: %s", cmd.CommandPath(), length, line)
			}
		}
	}
}

var (
	comment = regexp.MustCompile(`(?m)^\s*#.*$`)
	call    = regexp.MustCompile(`(?m)kubectl ipam ((?:[^\n|>)]|\\\n)*)`)
)

// The examples of the help are command lines that the program accepts.
func TestHelp_ExamplesAreAccepted(t *testing.T) {
	for _, cmd := range own(t) {
		calls := call.FindAllStringSubmatch(strings.ReplaceAll(comment.ReplaceAllString(cmd.Example, ""), "\\\n", " "), -1)
		for _, found := range calls {
			args := strings.Fields(strings.NewReplacer("'", "", `"`, "").Replace(found[1]))
			root := newRoot(stage.New(t).Session)
			named, rest, err := root.Traverse(args)
			if err == nil {
				named, rest, err = root.Find(args)
			}
			if err != nil || !named.HasParent() {
				t.Errorf("%q, an example of %s, names no command: %v", found[0], cmd.CommandPath(), err)
				continue
			}
			err = named.ParseFlags(rest)
			if err == nil {
				err = named.ValidateArgs(named.Flags().Args())
			}
			if err == nil {
				err = named.ValidateRequiredFlags()
			}
			if err == nil {
				err = named.ValidateFlagGroups()
			}
			if err != nil {
				t.Errorf("%q, an example of %s, is refused: %v", found[0], cmd.CommandPath(), err)
			}
		}
	}
}
