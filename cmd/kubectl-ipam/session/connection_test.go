package session

import (
	"testing"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericclioptions"

	"github.com/kcp-ipam/ipam/test/must"
)

// Commands in a hint have the flags by which this command reaches its server. They are quoted for a shell, and have no
// secrets.
func TestAimed_RepeatsTheConnection(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		args       []string
		text, want string
	}{
		"no flags":             {nil, "kubectl ipam claim release web deletes it", "kubectl ipam claim release web deletes it"},
		"a context":            {[]string{"--context", "team-a"}, "run kubectl ipam claim show web", "run kubectl ipam --context team-a claim show web"},
		"a command of kubectl": {[]string{"--context=team-a"}, "kubectl edit ippool lab changes it", "kubectl edit --context team-a ippool lab changes it"},
		"a user":               {[]string{"--as", "bob", "--as-group", "dev", "--as-group", "ops"}, "kubectl ipam check", "kubectl ipam --as bob --as-group dev --as-group ops check"},
		"quotes":               {[]string{"--context", "it's $1"}, "kubectl ipam check", `kubectl ipam --context 'it'"'"'s $1' check`},
		"a token":              {[]string{"--token", "secret"}, "kubectl ipam check", "kubectl ipam check"},
		"a program's name":     {[]string{"--context", "a"}, "use the kubectl ipam of the platform", "use the kubectl ipam of the platform"},
	} {
		cmd := &cobra.Command{}
		genericclioptions.NewConfigFlags(true).AddFlags(cmd.Flags())
		must.Do(t, cmd.ParseFlags(test.args))
		if got := (&Session{connection: connection(cmd.Flags())}).Aimed(test.text); got != test.want {
			t.Errorf("%s: Aimed(%q) = %q, want %q", name, test.text, got, test.want)
		}
	}
}
