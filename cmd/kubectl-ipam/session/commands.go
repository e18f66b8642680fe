package session

import (
	"cmp"
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/exit"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/field"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/legible"
)

// Group makes the command for a noun, with a command for each of its verbs. It refuses unknown verbs.
func Group(noun *cobra.Command, verbs ...*cobra.Command) *cobra.Command {
	noun.AddCommand(verbs...)
	noun.SuggestionsMinimumDistance = 2
	noun.Args = func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return nil
		}
		if instead := kubectlDoes(cmd.Name(), args[0]); instead != "" {
			return fmt.Errorf("%s has no command %q; use %s", cmd.CommandPath(), args[0], instead)
		}
		if near := cmd.SuggestionsFor(args[0]); len(near) > 0 {
			return fmt.Errorf("%s has no command %q; did you mean %q?", cmd.CommandPath(), args[0], near[0])
		}
		return fmt.Errorf("%s has no command %q", cmd.CommandPath(), args[0])
	}
	noun.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		if cmd.HasSubCommands() { // an unknown verb is reported before an unknown flag
			return cmp.Or(cmd.Args(cmd, cmd.Flags().Args()), err)
		}
		return err
	})
	noun.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
	return noun
}

// elsewhere has verbs that a noun lacks, and the commands to use instead. An empty nouns stands for all.
var elsewhere = []struct{ nouns, verbs, use string }{
	{"claim pool class address tenant", "history", "kubectl ipam history"},
	{"kubectl-ipam", "create delete describe get list ls release rm show",
		"kubectl ipam claim VERB, or another noun: pool, class, address, network"},
	{"kubectl-ipam", "verify", "ipam-controller verify, or kubectl ipam check"},
	{"claim", "tree", "kubectl ipam claim show NAME, and kubectl ipam pool tree"},
	{"claim pool class", "edit", "kubectl edit ipNOUN NAME"},
	{"class", "delete release rm", "kubectl delete ipclass NAME"},
	{"address", "delete release rm edit",
		"kubectl ipam claim release NAME, with the claim that kubectl ipam address show names"},
	{"address", "list ls", "kubectl ipam address show CIDR"},
	{"network", "create", "kubectl ipam claim create NAME --class CLASS --scope network=NAME --target range"},
	{"network", "delete release rm",
		"kubectl ipam claim release NAME --cascade, with the claim that kubectl ipam network list names as its holder"},
	{"network", "describe show tree", "kubectl ipam network list --scope network=NAME"},
	{"tenant", "describe show", "kubectl ipam tenant list"},
	{"tenant", "edit", "kubectl edit apibinding NAME, in the workspace of the tenant"},
	{"tenant", "delete release rm",
		"kubectl delete apibinding NAME, in the workspace of the tenant, which releases all its claims"},
}

// kubectlDoes returns the command that does what a verb would mean for a noun; empty if there is none.
func kubectlDoes(noun, verb string) string {
	for _, one := range elsewhere {
		if (one.nouns == "" || slices.Contains(strings.Fields(one.nouns), noun)) &&
			slices.Contains(strings.Fields(one.verbs), verb) {
			return strings.NewReplacer("NOUN", noun, "VERB", verb).Replace(one.use)
		}
	}
	return ""
}

// patience is how long completion waits for names.
const patience = 3 * time.Second

// Names returns the names that completion offers.
type Names func(ctx context.Context, c client.Reader, namespace string) ([]string, error)

// CompleteArgs completes the arguments of a command with names from the server.
func CompleteArgs(s *Session, cmd *cobra.Command, names Names) {
	cmd.ValidArgsFunction = func(cmd *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
		if cmd.Args(cmd, append(slices.Clone(args), begun)) != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return s.complete(cmd.Context(), names, args, begun)
	}
}

// CompleteNames completes a flag with names from the server.
func CompleteNames(s *Session, cmd *cobra.Command, flag string, names Names) {
	completeFlag(cmd, flag, func(cmd *cobra.Command, _ []string, begun string) ([]string, cobra.ShellCompDirective) {
		return s.complete(cmd.Context(), names, nil, begun)
	})
}

// CompleteWith completes a flag with fixed words.
func CompleteWith(cmd *cobra.Command, flag string, words ...string) {
	completeFlag(cmd, flag, cobra.FixedCompletions(words, cobra.ShellCompDirectiveNoFileComp))
}

func completeFlag(cmd *cobra.Command, flag string, complete cobra.CompletionFunc) {
	if err := cmd.RegisterFlagCompletionFunc(flag, complete); err != nil {
		panic(err) // the flag does not exist: every test of the command shows this
	}
}

// complete returns the names that begin with this text. After an error it returns none. It leaves out names with
// unprintable characters, which no object can have.
func (s *Session) complete(
	ctx context.Context, names Names, taken []string, begun string,
) ([]string, cobra.ShellCompDirective) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	var found []string
	here, err := s.Here()
	if err == nil {
		found, err = names(ctx, here, here.Namespace)
	}
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return slices.DeleteFunc(found, func(name string) bool {
		return !strings.HasPrefix(name, begun) || slices.Contains(taken, name) || name != legible.Text(name)
	}), cobra.ShellCompDirectiveNoFileComp
}

// These return the names of the claims in a namespace, of the pools in the workspace, and of the classes that the
// workspace shows.
var (
	ClaimNames = namesIn(func() client.ObjectList { return &ipamv1alpha1.IPClaimList{} })
	PoolNames  = namesIn(func() client.ObjectList { return &ipamv1alpha1.IPPoolList{} })
	ClassNames = namesIn(func() client.ObjectList { return &ipamv1alpha1.IPClassList{} })
)

// NamespaceNames lists the namespaces of the workspace.
func NamespaceNames(ctx context.Context, c client.Reader, _ string) ([]string, error) {
	return namesIn(func() client.ObjectList { return &corev1.NamespaceList{} })(ctx, c, "")
}

// namesIn returns a function that lists the names of the objects of a kind, in order.
func namesIn(fresh func() client.ObjectList) Names {
	return func(ctx context.Context, c client.Reader, namespace string) (names []string, _ error) {
		list := fresh()
		if err := c.List(ctx, list, client.InNamespace(namespace)); err != nil {
			return nil, err
		}
		err := meta.EachListItem(list, func(item runtime.Object) error {
			names = append(names, item.(client.Object).GetName())
			return nil
		})
		slices.Sort(names)
		return names, err
	}
}

// AddFields gives a command a flag for each field. It completes flags that take only a few words.
func AddFields(cmd *cobra.Command, fields ...field.Field) {
	for _, f := range fields {
		cmd.Flags().Var(f.Value, f.Name, f.Usage)
		if words := f.Choices(); len(words) > 0 {
			CompleteWith(cmd, f.Name, words...)
		}
	}
}

// refuseEmpty refuses a flag with an empty value, or with an empty value among several: in a script, this is a variable
// that is not set. It accepts an empty value if the help of the flag says what it means. It also accepts a number,
// because 0 may be written as an empty text.
func refuseEmpty(flags *pflag.FlagSet) (err error) {
	flags.Visit(func(f *pflag.Flag) {
		values := valuesOf(f)
		if f.Value.Type() != "int32" && (len(values) == 0 || slices.Contains(values, "")) &&
			!strings.Contains(f.Usage, "empty ") {
			err = exit.Usagef("--%s is empty; give it a value, or leave it out", f.Name)
		}
	})
	return err
}

// valuesOf returns the values of a flag.
func valuesOf(f *pflag.Flag) []string {
	if several, ok := f.Value.(pflag.SliceValue); ok {
		return several.GetSlice()
	}
	return []string{f.Value.String()}
}

// connecting are the flags that say which server a command asks, and as which user. Flags with secrets are not among
// them.
var connecting = []string{"as", "as-group", "as-uid", "cluster", "context", "kubeconfig", "server", "user"}

// connection returns those given flags that say which server is asked, and as which user. They are quoted for a shell.
func connection(flags *pflag.FlagSet) string {
	var said []string
	flags.VisitAll(func(f *pflag.Flag) {
		if !f.Changed || !slices.Contains(connecting, f.Name) {
			return
		}
		for _, value := range valuesOf(f) {
			said = append(said, " --"+f.Name+" "+legible.Argument(value))
		}
	})
	return strings.Join(said, "")
}

// advised matches the beginning of a command in a hint. It does not match kubectl ipam grant, which somebody else has
// to run.
var advised = regexp.MustCompile(`\b(kubectl (?:ipam|edit|delete|label)) ` +
	`(address|check|claim|class|export|history|import|init|ip[a-z]+|pool|tenant|why)\b`)

// Aimed adds to each command in a text the flags by which this command reaches its server. Without them, the advised
// command would reach another server.
func (s *Session) Aimed(text string) string {
	return advised.ReplaceAllString(text, "${1}"+strings.ReplaceAll(s.connection, "$", "$$")+" ${2}")
}
