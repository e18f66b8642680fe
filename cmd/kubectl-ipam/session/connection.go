package session

import (
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/exit"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/legible"
)

// refuseEmpty refuses flags with an empty value, or an empty one among several: in a script, that is a
// variable that is not set. A flag takes one if its help says what it means; a number is never empty, and 0 may be shown so.
func refuseEmpty(flags *pflag.FlagSet) (err error) {
	flags.Visit(func(f *pflag.Flag) {
		values := []string{f.Value.String()}
		if several, ok := f.Value.(pflag.SliceValue); ok {
			values = several.GetSlice()
		}
		if f.Value.Type() != "int32" && (len(values) == 0 || slices.Contains(values, "")) && !strings.Contains(f.Usage, "empty ") {
			err = exit.Usagef("--%s is empty; give it a value, or leave it out", f.Name)
		}
	})
	return err
}

// connecting are the flags that say which server a command asks, and as which user. Those with a secret are not
// among them.
var connecting = []string{"as", "as-group", "as-uid", "cluster", "context", "kubeconfig", "server", "user"}

// connection returns those of the given flags that say which server is asked, and as which user, as a shell
// reads them.
func connection(flags *pflag.FlagSet) string {
	var said []string
	flags.VisitAll(func(f *pflag.Flag) {
		if !f.Changed || !slices.Contains(connecting, f.Name) {
			return
		}
		values := []string{f.Value.String()}
		if several, ok := f.Value.(pflag.SliceValue); ok {
			values = several.GetSlice()
		}
		for _, value := range values {
			said = append(said, " --"+f.Name+" "+legible.Argument(value))
		}
	})
	return strings.Join(said, "")
}

// advised matches the begin of a command in a hint. That of kubectl ipam grant is for somebody else to run.
var advised = regexp.MustCompile(`\b(kubectl (?:ipam|edit|delete|label)) (address|check|claim|class|export|import|init|ip[a-z]+|pool|tenant|verify|why)\b`)

// Aimed adds to the commands in a text the flags by which this one reaches its server: without them, they would
// be about another one.
func (s *Session) Aimed(text string) string {
	return advised.ReplaceAllString(text, "${1}"+strings.ReplaceAll(s.connection, "$", "$$")+" ${2}")
}
