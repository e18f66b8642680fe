package session

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/field"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/legible"
)

// patience is how long a shell waits for names.
const patience = 3 * time.Second

// Names lists what may be completed.
type Names func(ctx context.Context, c client.Reader, namespace string) ([]string, error)

// CompleteArgs completes the arguments of a command with live names.
func CompleteArgs(s *Session, cmd *cobra.Command, names Names) {
	cmd.ValidArgsFunction = func(cmd *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
		if cmd.Args(cmd, append(slices.Clone(args), begun)) != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return s.complete(cmd.Context(), names, args, begun)
	}
}

// CompleteNames completes a flag with live names.
func CompleteNames(s *Session, cmd *cobra.Command, flag string, names Names) {
	err := cmd.RegisterFlagCompletionFunc(flag, func(cmd *cobra.Command, _ []string, begun string) ([]string, cobra.ShellCompDirective) {
		return s.complete(cmd.Context(), names, nil, begun)
	})
	if err != nil {
		panic(err) // there is no such flag: every test of the command shows it
	}
}

// CompleteWith completes a flag with fixed words.
func CompleteWith(cmd *cobra.Command, flag string, words ...string) {
	if err := cmd.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(words, cobra.ShellCompDirectiveNoFileComp)); err != nil {
		panic(err) // as above
	}
}

// complete lists the names with this beginning. After an error it lists none. It leaves out
// names with unprintable characters: no object can have such a name.
func (s *Session) complete(ctx context.Context, names Names, taken []string, begun string) ([]string, cobra.ShellCompDirective) {
	found, err := s.list(ctx, names)
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return slices.DeleteFunc(found, func(name string) bool {
		return !strings.HasPrefix(name, begun) || slices.Contains(taken, name) || name != legible.Text(name)
	}), cobra.ShellCompDirectiveNoFileComp
}

func (s *Session) list(ctx context.Context, names Names) ([]string, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	c, namespace, err := s.Here()
	if err != nil {
		return nil, err
	}
	return names(ctx, c, namespace)
}

// The names of the claims of a namespace, of the pools of the workspace, and of the classes that it is shown.
var (
	ClaimNames = namesIn(func() client.ObjectList { return &ipamv1alpha1.IPClaimList{} })
	PoolNames  = namesIn(func() client.ObjectList { return &ipamv1alpha1.IPPoolList{} })
	ClassNames = namesIn(func() client.ObjectList { return &ipamv1alpha1.IPClassList{} })
)

// namesIn lists the names in a list of a kind, in order.
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

// AddFields gives a command a flag for each field, and completes those that take a few words.
func AddFields(cmd *cobra.Command, fields ...field.Field) {
	for _, f := range fields {
		cmd.Flags().Var(f.Value, f.Name, f.Usage)
		if words := f.Choices(); len(words) > 0 {
			CompleteWith(cmd, f.Name, words...)
		}
	}
}

// Check adds to the checks of a command line before the command runs. An error is one of usage.
func Check(cmd *cobra.Command, check func() error) {
	earlier := cmd.PreRunE
	cmd.PreRunE = func(cmd *cobra.Command, args []string) error {
		if earlier != nil {
			if err := earlier(cmd, args); err != nil {
				return err
			}
		}
		return check()
	}
}
