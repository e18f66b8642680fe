package pool

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/exit"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/screen"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/session"
	"github.com/kcp-ipam/ipam/ipamclient"
)

// removal is kubectl ipam pool release.
type removal struct {
	*session.Session
	cascade, yes bool
	wait         time.Duration
	// typed reads the answers of the user.
	typed *bufio.Reader
}

func newRelease(s *session.Session) *cobra.Command {
	o := &removal{Session: s}
	cmd := &cobra.Command{
		Use:     "release NAME...",
		Aliases: []string{"delete", "rm"},
		Short:   "Delete pools, and with --cascade what they hold in this workspace",
		Long: `Delete pools, which frees their blocks in their parents. A pool that holds blocks is refused.
With --cascade, its claims, its retained blocks and the pools carved from it are released
first, if they are of this workspace. Type the name of each pool to confirm.`,
		Example: `  # release all that the pool holds in this workspace, and do not ask
  kubectl ipam pool release lab --cascade --yes`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error { return o.run(cmd.Context(), args) },
	}
	cmd.Flags().BoolVar(&o.cascade, "cascade", false, "Release what the pool holds in this workspace first")
	cmd.Flags().BoolVarP(&o.yes, "yes", "y", false, "Do not ask for the names of the pools")
	cmd.Flags().DurationVar(&o.wait, "wait", 30*time.Second, "How long to wait until each pool is gone")
	session.CompleteArgs(s, cmd, session.PoolNames)
	return cmd
}

func (o *removal) run(ctx context.Context, names []string) error {
	if o.wait <= 0 {
		return exit.Usagef("--wait is %s; write a duration such as 30s", o.wait)
	}
	here, err := o.Here()
	if err != nil {
		return err
	}
	o.typed = bufio.NewReader(o.In)
	var errs []error
	for _, name := range names {
		errs = append(errs, o.one(ctx, here, name))
	}
	return errors.Join(errs...)
}

// one releases one pool.
func (o *removal) one(ctx context.Context, c client.WithWatch, name string) (err error) {
	pool := &ipamv1alpha1.IPPool{}
	if err := c.Get(ctx, client.ObjectKey{Name: name}, pool); err != nil {
		return err
	}
	doomed := &estate{pools: []*ipamv1alpha1.IPPool{pool}}
	if o.cascade {
		doomed, err = estateOf(ctx, c, pool)
	} else {
		err = emptied(ctx, c, pool)
	}
	if err != nil {
		return err
	}
	if err := o.confirm(ctx, doomed, name); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, o.wait, fmt.Errorf("pool %s is not gone after %s", name, o.wait))
	defer cancel()
	return o.release(ctx, c, doomed)
}

// settling is how long the status of a pool may take to follow its use.
const settling = time.Second

// emptied says that a pool holds something, once its status has had time to show that it does not: its last claim may have
// been released a moment ago.
func emptied(ctx context.Context, c client.WithWatch, pool *ipamv1alpha1.IPPool) error {
	const hint = "--cascade releases what it holds in this workspace"
	ctx, cancel := context.WithTimeout(ctx, settling)
	defer cancel()
	err := ipamclient.Until(ctx, c, pool, func() bool { return inUse(pool, hint) == nil })
	if errors.Is(err, context.DeadlineExceeded) {
		return inUse(pool, hint)
	}
	return err
}

// inUse says that a pool holds something, with a hint at what to do; nil if it does not.
func inUse(pool *ipamv1alpha1.IPPool, hint string) error {
	condition := meta.FindStatusCondition(pool.Status.Conditions, ipamv1alpha1.ConditionInUse)
	if condition == nil || condition.Reason != string(ipamv1alpha1.ReasonInUse) {
		return nil
	}
	return exit.Fail(ipamv1alpha1.ReasonInUse.ExitCode(), hint, "pool %s is in use: %s", pool.Name, condition.Message)
}

// confirm asks the user to type the name of the pool.
func (o *removal) confirm(ctx context.Context, doomed *estate, name string) error {
	if o.yes {
		return nil
	}
	if !o.Asks {
		return exit.Fail(exit.Aborted, "", "stdin is not a terminal: pass --yes to release %s", doomed)
	}
	screen.Line(o.ErrOut, "This releases %s.", o.ErrPaint.Bold(doomed.String()))
	fmt.Fprint(o.ErrOut, "Type the name of the pool to go on: ")
	typed := make(chan string, 1)
	go func() { // without an answer it ends with the program
		line, _ := o.typed.ReadString('\n')
		typed <- strings.TrimSpace(line)
	}()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case line := <-typed:
		if line != name {
			return exit.Fail(exit.Aborted, "", "nothing was released: %q is not %q", line, name)
		}
		return nil
	}
}

// release deletes claims and retained blocks, then pools from the leaves to the root.
func (o *removal) release(ctx context.Context, c client.WithWatch, doomed *estate) error {
	tell := o.Waits()
	if err := doomed.releaseBlocks(ctx, c); err != nil {
		return err
	}
	for _, pool := range doomed.pools {
		tell("waiting for pool " + pool.Name + " to be empty and gone")
		if err := deletePool(ctx, c, pool); err != nil {
			return err
		}
	}
	o.Say("%s released", doomed)
	return nil
}

// deletePool waits until a pool is empty, deletes it, and waits until it is gone.
func deletePool(ctx context.Context, c client.WithWatch, pool *ipamv1alpha1.IPPool) error {
	err := deleteEmpty(ctx, c, pool)
	if apierrors.IsNotFound(err) || errors.Is(err, ipamclient.ErrGone) {
		return nil
	}
	if err != nil {
		return err
	}
	err = ipamclient.Until(ctx, c, pool, func() bool { return false })
	if errors.Is(err, ipamclient.ErrGone) {
		return nil
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return exit.Fail(exit.Unavailable, "its deletion goes on; if the pool stays, kubectl ipam check says whether the controller runs", "%w", context.Cause(ctx))
	}
	return err
}

// deleteEmpty waits until a pool is empty, and deletes it. The status of a pool follows its use by a
// moment, so a pool that seems to be empty may be refused: its status has been written since.
func deleteEmpty(ctx context.Context, c client.WithWatch, pool *ipamv1alpha1.IPPool) error {
	busy := func() error {
		return inUse(pool, fmt.Sprintf("blocks of other workspaces stay, and those that came meanwhile: kubectl ipam pool show %s shows what you may see", pool.Name))
	}
	for {
		err := ipamclient.Until(ctx, c, pool, func() bool { return busy() == nil })
		if errors.Is(err, context.DeadlineExceeded) {
			return busy()
		}
		if err != nil {
			return err
		}
		err = c.Delete(ctx, pool, client.Preconditions{UID: &pool.UID})
		if !apierrors.IsInvalid(err) { // the one thing that admission refuses of a deletion
			return err
		}
		refused := exit.Fail(exit.Conflict, "try again", "pool %s has come into use: %w", pool.Name, err)
		err = ipamclient.Until(ctx, c, pool, func() bool { return busy() != nil })
		if errors.Is(err, context.DeadlineExceeded) {
			return refused
		}
		if err != nil {
			return err
		}
	}
}
