package main

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/ipamclient"
)

// request creates a claim, a pool or a class and waits for the answer.
type request struct {
	*session
	output output
	wait   time.Duration
	dryRun string
	quiet  bool
	// replace deletes a claim of the same name that has no block.
	replace bool
	// given reports whether the command line has a flag.
	given func(flag string) bool
}

const (
	dryRunNone   = "none"
	dryRunClient = "client"
	dryRunServer = "server"
)

func (r *request) addFlags(cmd *cobra.Command) {
	r.output.addFlags(cmd)
	r.given = cmd.Flags().Changed
	cmd.Flags().DurationVar(&r.wait, "wait", 30*time.Second,
		"How long to wait for the answer; 0 does not wait. Without this flag, do not wait for a class or a pool that does not exist")
	addDryRun(cmd, &r.dryRun, dryRunClient, "client: print the manifest and send nothing. server: print the answer of the server, and store nothing")
	cmd.Flags().BoolVarP(&r.quiet, "quiet", "q", false, "Print only the CIDR, or the name of a class")
}

// addDryRun gives a command the flag --dry-run, and what it means without a value.
func addDryRun(cmd *cobra.Command, value *string, alone, usage string) {
	*value = dryRunNone
	choose(cmd, value, "dry-run", usage, dryRunClient, dryRunServer, dryRunNone)
	cmd.Flags().Lookup("dry-run").NoOptDefVal = alone
}

func (r *request) validate() error {
	if r.wait < 0 {
		return usagef("--wait is %s; write a duration such as 30s, or 0", r.wait)
	}
	return r.output.validate()
}

// send creates the object and waits for its block.
func (r *request) send(ctx context.Context, object client.Object) error {
	if r.dryRun == dryRunClient {
		return r.output.printManifest(r.Out, object)
	}
	c, err := r.client()
	if err != nil {
		return err
	}
	if err := r.ensure(ctx, c, object); err != nil {
		return r.advised(ctx, c, object, err)
	}
	if r.dryRun == dryRunServer {
		return r.output.printManifest(r.Out, object)
	}
	if err := r.await(ctx, c, object); err != nil {
		return err
	}
	return r.advised(ctx, c, object, r.show(object))
}

// ensure creates the object, or finds the same there. What is there by the same
// name and asks for something else is a conflict.
func (r *request) ensure(ctx context.Context, c client.WithWatch, object client.Object) error {
	var options []client.CreateOption
	if r.dryRun == dryRunServer {
		options = append(options, client.DryRunAll)
	}
	if claim, ok := object.(*ipamv1alpha1.IPClaim); ok {
		return r.ensureClaim(ctx, c, claim, options)
	}
	wanted := object.DeepCopyObject().(client.Object)
	err := c.Create(ctx, object, options...)
	if !apierrors.IsAlreadyExists(err) {
		return err
	}
	if err := c.Get(ctx, client.ObjectKeyFromObject(object), object); err != nil {
		return err
	}
	if !object.GetDeletionTimestamp().IsZero() {
		return fail(exitConflict, "try again when it is gone", "%s %s is being deleted", kindOf(object), nameOf(object))
	}
	unlike := unlikeOf(wanted, object)
	if equality.Semantic.DeepEqual(specOf(wanted), specOf(object)) && len(unlike) == 0 {
		return nil
	}
	return taken(object, unlike)
}

// ensureClaim is ensure for a claim, one without a block included: its status says why.
func (r *request) ensureClaim(ctx context.Context, c client.WithWatch, claim *ipamv1alpha1.IPClaim, options []client.CreateOption) error {
	wanted := claim.DeepCopy()
	_, err := ipamclient.Ensure(ctx, c, claim, options...)
	conflict, ok := errors.AsType[*ipamclient.ConflictError](err)
	switch {
	case ok && !r.replace:
		return differs(conflict)
	case ok:
		err = r.replaceUnbound(ctx, c, claim, wanted)
		wanted.DeepCopyInto(claim)
		return err
	}
	err = whenStored(err)
	if unlike := unlikeOf(wanted, claim); err == nil && len(unlike) > 0 {
		r.say("claim %s exists and is not changed: %s; kubectl label ipclaim %s LABEL=VALUE --overwrite changes it",
			nameOf(claim), strings.Join(unlike, ", "), argsOf(claim))
	}
	return err
}

// whenStored takes a claim that waits for created.
func whenStored(err error) error {
	if refused, ok := errors.AsType[*ipamclient.UnmetError](err); ok && refused.Stored {
		return nil
	}
	return unmet(err)
}

// await waits until the object has its block or can never get it, and no longer
// than was said. A claim has its answer in the response to its creation, as a rule.
func (r *request) await(ctx context.Context, c client.WithWatch, object client.Object) error {
	if r.wait == 0 {
		return nil
	}
	what := kindOf(object) + " " + nameOf(object)
	spinner := r.spin("waiting for " + what)
	defer spinner.stop()
	limited, cancel := context.WithTimeout(ctx, r.wait)
	defer cancel()
	err := ipamclient.Until(limited, c, object, func() bool {
		now := answerOf(object)
		if now.allocated != nil {
			spinner.say(what + " waits: " + now.reason())
		}
		return now.given() || now.stalled || now.missing() && !r.given("wait")
	})
	if ctx.Err() == nil && errors.Is(err, context.DeadlineExceeded) {
		return nil // the answer is what there is by now
	}
	if errors.Is(err, ipamclient.ErrGone) {
		return fail(exitAborted, "", "%s: %w", what, err)
	}
	return err
}

// show prints the block, or the object if that was asked for.
func (r *request) show(object client.Object) error {
	now := answerOf(object)
	if r.output.given() {
		if err := r.output.print(r.Out, object, r.now); err != nil {
			return err
		}
	}
	if r.wait == 0 && !now.given() {
		if !r.quiet {
			r.say("%s %s is created; kubectl ipam %s show %s shows the answer", kindOf(object), nameOf(object), kindOf(object), argsOf(object))
		}
		return nil
	}
	if err := now.err(object); err != nil {
		return err
	}
	if !r.quiet {
		printLine(r.ErrOut, "%s %s %s", kindOf(object), r.err.bold(nameOf(object)), gotFrom(object))
	}
	if !r.output.given() {
		printLine(r.Out, "%s", now.data)
	}
	return nil
}

// gotFrom says where a block is from.
func gotFrom(object client.Object) string {
	switch object := object.(type) {
	case *ipamv1alpha1.IPClaim:
		from := "is bound"
		if object.Status.PoolRef != nil {
			from += " from pool " + object.Status.PoolRef.Name
		}
		if object.Status.ClassName != "" {
			from += " by class " + object.Status.ClassName
		}
		return from
	case *ipamv1alpha1.IPPool:
		if parent := object.Spec.ParentPoolRef; parent != nil {
			return "is carved from pool " + parent.Name
		}
	case *ipamv1alpha1.IPClass:
		if object.Status.OfferingPools == 0 {
			return "is ready, and no pool backs it yet: kubectl ipam pool create POOL --cidr CIDR --visibility platform --class " + object.Name
		}
	}
	return "is ready"
}

func specOf(object client.Object) any {
	switch object := object.(type) {
	case *ipamv1alpha1.IPPool:
		return *object.Spec.DeepCopy()
	case *ipamv1alpha1.IPClass:
		return *object.Spec.DeepCopy()
	default:
		return nil
	}
}

// named is the one name that was given, as an argument or by --name; empty if none was. An empty
// one is refused: a script whose variable is not set would get a new claim at each run.
func (r *request) named(args []string, flag string) (string, error) {
	names := args
	if r.given("name") {
		names = append(slices.Clip(args), flag)
	}
	switch names = slices.Compact(names); {
	case len(names) == 0:
		return "", nil
	case slices.Contains(names, ""):
		return "", usagef("the name is empty; write a name, or leave NAME and --name out for a generated one")
	case len(names) > 1:
		return "", usagef("the names %q and %q were given; give one", names[0], names[1])
	}
	return names[0], nil
}
