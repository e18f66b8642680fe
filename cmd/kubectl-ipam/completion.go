package main

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
)

// patience is how long a shell waits for names.
const patience = 3 * time.Second

// namesOf lists what may be completed.
type namesOf func(ctx context.Context, c client.Reader, namespace string) ([]string, error)

// completeArgs completes the arguments of a command with live names.
func completeArgs(s *session, cmd *cobra.Command, names namesOf) {
	cmd.ValidArgsFunction = func(cmd *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
		if cmd.Args(cmd, append(slices.Clone(args), begun)) != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return s.complete(cmd.Context(), names, args, begun)
	}
}

// completeNames completes a flag with live names.
func completeNames(s *session, cmd *cobra.Command, flag string, names namesOf) {
	err := cmd.RegisterFlagCompletionFunc(flag, func(cmd *cobra.Command, _ []string, begun string) ([]string, cobra.ShellCompDirective) {
		return s.complete(cmd.Context(), names, nil, begun)
	})
	if err != nil {
		panic(err) // there is no such flag: every test of the command shows it
	}
}

// completeWith completes a flag with fixed words.
func completeWith(cmd *cobra.Command, flag string, words ...string) {
	if err := cmd.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(words, cobra.ShellCompDirectiveNoFileComp)); err != nil {
		panic(err) // as above
	}
}

// complete lists the names with this beginning. After an error it lists none. It leaves out
// names with unprintable characters: no object can have such a name.
func (s *session) complete(ctx context.Context, names namesOf, taken []string, begun string) ([]string, cobra.ShellCompDirective) {
	found, err := s.list(ctx, names)
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return slices.DeleteFunc(found, func(name string) bool {
		return !strings.HasPrefix(name, begun) || slices.Contains(taken, name) || name != plain(name)
	}), cobra.ShellCompDirectiveNoFileComp
}

func (s *session) list(ctx context.Context, names namesOf) ([]string, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	c, namespace, err := s.here()
	if err != nil {
		return nil, err
	}
	return names(ctx, c, namespace)
}

func claimNames(ctx context.Context, c client.Reader, namespace string) ([]string, error) {
	list := &ipamv1alpha1.IPClaimList{}
	err := c.List(ctx, list, client.InNamespace(namespace))
	return collect(list.Items, func(claim *ipamv1alpha1.IPClaim) string { return claim.Name }), err
}

func poolNames(ctx context.Context, c client.Reader, _ string) ([]string, error) {
	list := &ipamv1alpha1.IPPoolList{}
	err := c.List(ctx, list)
	return collect(list.Items, func(pool *ipamv1alpha1.IPPool) string { return pool.Name }), err
}

func classNames(ctx context.Context, c client.Reader, _ string) ([]string, error) {
	list := &ipamv1alpha1.IPClassList{}
	err := c.List(ctx, list)
	return collect(list.Items, func(class *ipamv1alpha1.IPClass) string { return class.Name }), err
}

func collect[T any](items []T, name func(*T) string) []string {
	found := make([]string, len(items))
	for i := range items {
		found[i] = name(&items[i])
	}
	return found
}

// parseSelector reads labels as people write them.
func parseSelector(text string) (labels.Selector, error) {
	selector, err := labels.Parse(text)
	if err != nil {
		return nil, usagef("--selector is %q; write labels such as site=fra: %w", text, err)
	}
	return selector, nil
}
