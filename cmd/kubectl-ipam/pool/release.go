package pool

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/cascade"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/exit"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/facts"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/field"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/screen"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/session"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/space"
	"github.com/kcp-ipam/ipam/internal/plural"
	"github.com/kcp-ipam/ipam/ipamclient"
)

// removal is kubectl ipam pool release.
type removal struct {
	*session.Session
	cascade, yes bool
	// wait is how long to try to delete a pool: since the last allocation that went or, if whole is set, in all.
	wait  time.Duration
	whole bool
	// typed has the answers that the user types.
	typed *bufio.Reader
}

func newRelease(s *session.Session) *cobra.Command {
	o := &removal{Session: s, wait: 30 * time.Second}
	cmd := &cobra.Command{
		Use:     "release NAME...",
		Aliases: []string{"delete", "rm"},
		Short:   "Delete pools, and with --cascade what they hold in this workspace",
		Long: `Delete pools, which frees their blocks in their parents. A pool that holds blocks is refused.
With --cascade, its claims, its retained blocks and the pools carved from it are released
first, if they are of this workspace. Type the name of each pool to confirm.

Many claims are released side by side. After a failure or an interruption, the command says
how many are released, and which are left: run it again, and it goes on with those.`,
		Example: `  # release all that the pool holds in this workspace, and do not ask
  kubectl ipam pool release lab --cascade --yes`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.whole = cmd.Flags().Changed("wait")
			return o.run(cmd.Context(), args)
		},
	}
	cmd.Flags().BoolVar(&o.cascade, "cascade", false, "Release what the pool holds in this workspace first")
	cmd.Flags().BoolVarP(&o.yes, "yes", "y", false, "Do not ask for the names of the pools")
	cmd.Flags().Var(field.Duration(&o.wait, time.Millisecond), "wait", "How long to wait until each pool is gone, "+
		"once its claims are released; without the flag, for so long as blocks are freed, and 30s more")
	session.CompleteArgs(s, cmd, session.PoolNames)
	return cmd
}

func (o *removal) run(ctx context.Context, names []string) error {
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

// one releases a single pool.
func (o *removal) one(ctx context.Context, c client.WithWatch, name string) (err error) {
	pool := &ipamv1alpha1.IPPool{}
	if err := c.Get(ctx, client.ObjectKey{Name: name}, pool); err != nil {
		return err
	}
	doomed := &cascade.Estate{Pools: []*ipamv1alpha1.IPPool{pool}}
	if o.cascade {
		if doomed, err = cascade.OfPool(ctx, c, pool); err != nil {
			return err
		}
	}
	if err := o.confirm(ctx, doomed, name); err != nil {
		return err
	}
	return o.release(ctx, c, doomed)
}

// confirm asks the user to type the name of the pool.
func (o *removal) confirm(ctx context.Context, doomed *cascade.Estate, name string) error {
	if o.yes {
		return nil
	}
	if !o.Asks {
		return exit.Fail(exit.Aborted, "", "stdin is not a terminal: pass --yes to release %s", doomed)
	}
	screen.Line(o.ErrOut, "This releases %s.", o.ErrPaint.Bold(doomed.String()))
	fmt.Fprint(o.ErrOut, "Type the name of the pool to go on: ")
	typed := make(chan string, 1)
	go func() { // if the user does not answer, this goroutine ends with the program
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

// release deletes claims and retained blocks, then the pools from the leaves to the root, and waits until each pool is
// gone. o.wait limits only the wait for pools: the releases of many claims may take longer.
func (o *removal) release(ctx context.Context, c client.WithWatch, doomed *cascade.Estate) error {
	levels := cascade.Levels(doomed.Claims)
	kept := make([]client.Object, 0, len(doomed.Retained))
	for _, record := range doomed.Retained {
		kept = append(kept, record)
	}
	run := cascade.Run{Session: o.Session, Most: mostFailed}
	err := run.Do(ctx, append(levels, kept), func(ctx context.Context, object client.Object) error {
		return cascade.Deletion{WithWatch: c, Patience: o.wait, Whole: o.whole}.Do(ctx, object)
	})
	if err != nil {
		return err
	}
	for _, pool := range doomed.Pools {
		if err := o.pool(ctx, c, pool); err != nil {
			return err
		}
	}
	o.Say("%s released", doomed)
	return nil
}

// mostFailed is the number of failed releases after which no other is begun.
const mostFailed = 5

// settling is how long the status of a pool may take to follow its use.
const settling = time.Second

// pool deletes a pool, and waits until it is gone.
func (o *removal) pool(ctx context.Context, c client.WithWatch, pool *ipamv1alpha1.IPPool) error {
	late := fmt.Errorf("pool %s is not gone after %s", pool.Name, o.wait)
	if o.whole {
		limited, cancel := context.WithTimeoutCause(ctx, o.wait, late)
		defer cancel()
		ctx = limited
	}
	d := cascade.Deletion{WithWatch: c, Patience: settling, Whole: true, Tell: o.Waits()}
	if o.cascade {
		d.Patience, d.Whole = o.wait, o.whole
	}
	d.Tell("waiting for pool " + pool.Name + " to be empty and gone")
	err := d.Do(ctx, pool)
	if apierrors.IsInvalid(err) {
		_, seen, unseen := find(ctx, o.Session, "", pool.Name)
		if unseen != nil {
			seen = &space.Pool{} // then the refusal is printed without the holders
		}
		return o.inUse(pool, seen, err)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, o.wait, late)
	defer cancel()
	if err == nil {
		err = ipamclient.Until(ctx, c, pool, func() bool { return false })
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return exit.Fail(exit.Unavailable,
			"its deletion goes on; if the pool stays, kubectl ipam check says whether the controller runs",
			"%w", cmp.Or(context.Cause(ctx), late))
	}
	if !errors.Is(err, ipamclient.ErrGone) {
		return err
	}
	return nil
}

// others names some holders in other workspaces of blocks of a pool. Only admins of the platform see these; empty for
// all others.
func others(seen *space.Pool) string {
	var names []string
	for _, h := range seen.Held {
		if h.Workspace != "" {
			names = append(names, h.Holder)
		}
	}
	const named = 3
	if more := len(names) - named; more > 0 {
		names = append(names[:named], plural.Of(more, "other", "others"))
	}
	return strings.Join(names, ", ")
}

// inUse returns the error for a pool in use. It names the blocks that the pool holds, those in other workspaces, as far
// as the caller sees, and the remedy.
func (o *removal) inUse(pool *ipamv1alpha1.IPPool, seen *space.Pool, refused error) error {
	hint := "--cascade releases what it holds in this workspace"
	if elsewhere := others(seen); elsewhere != "" {
		hint = "those of other workspaces release it there: " + elsewhere
	} else if o.cascade {
		hint = fmt.Sprintf("blocks of other workspaces stay, and those that came meanwhile: "+
			"kubectl ipam pool show %s shows what you may see", pool.Name)
	}
	return exit.Fail(ipamv1alpha1.ReasonInUse.ExitCode(), hint, "pool %s is in use: %s",
		pool.Name, cmp.Or(facts.Message(ipamv1alpha1.ConditionInUse, pool.Status.Conditions), refused.Error()))
}
