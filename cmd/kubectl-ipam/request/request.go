// Package request creates a claim, a pool or a class, and waits for the answer.
package request

import (
	"context"
	"errors"
	"reflect"
	"strings"
	"time"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/exit"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/facts"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/field"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/output"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/screen"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/session"
	"github.com/kcp-ipam/ipam/ipamclient"
)

// Command creates a claim, a pool or a class and waits for the answer.
type Command struct {
	*session.Session
	output output.Printer
	wait   time.Duration
	DryRun string
	quiet  bool
	// Replace deletes an existing claim or pool of the same name if it has no block.
	Replace bool
	// Given reports whether the command line has a flag.
	Given func(flag string) bool
}

// These are the values of --dry-run.
const (
	DryRunNone   = "none"
	DryRunClient = "client"
	DryRunServer = "server"
)

// AddFlags gives a command the flags of every creation.
func (r *Command) AddFlags(cmd *cobra.Command) {
	r.output.AddFlags(cmd)
	r.Given = cmd.Flags().Changed
	r.wait = 30 * time.Second
	cmd.Flags().Var(field.Duration(&r.wait, 0), "wait",
		"How long to wait for the answer; 0 does not wait. "+
			"Without this flag, do not wait for a class or a pool that does not exist")
	AddDryRun(cmd, &r.DryRun, DryRunClient,
		"client: print the manifest and send nothing. server: print the answer of the server, and store nothing")
	cmd.Flags().BoolVarP(&r.quiet, "quiet", "q", false, "Print only the CIDR, or the name of a class")
}

// AddReplace gives a command the flag --replace. The kind must be one whose objects get a block.
func (r *Command) AddReplace(cmd *cobra.Command, kind string) {
	cmd.Flags().BoolVar(&r.Replace, "replace", false,
		"Replace a "+kind+" of this name that asks for something else and has no block")
}

// AddDryRun gives a command the flag --dry-run. alone is its value if the flag is given without one.
func AddDryRun(cmd *cobra.Command, value *string, alone, usage string) {
	*value = DryRunNone
	words := field.Word(value, DryRunClient, DryRunServer, DryRunNone)
	session.AddFields(cmd, field.Field{Name: "dry-run", Usage: usage, Value: words})
	cmd.Flags().Lookup("dry-run").NoOptDefVal = alone
}

// Send creates the object and waits for its block.
func (r *Command) Send(ctx context.Context, object client.Object) error {
	if r.DryRun == DryRunClient {
		return r.output.PrintManifest(r.Out, object)
	}
	c, err := r.Here()
	if err != nil {
		return err
	}
	if err := r.ensure(ctx, c, object); err != nil {
		return r.advised(ctx, c, object, err)
	}
	if r.DryRun == DryRunServer {
		return r.output.PrintManifest(r.Out, object)
	}
	if err := r.await(ctx, c, object); err != nil {
		return err
	}
	return r.advised(ctx, c, object, r.show(object))
}

// ensure creates the object, or finds that it exists already. If an object of this name asks for something else, this
// is a conflict, unless --replace allows to replace it.
func (r *Command) ensure(ctx context.Context, c client.WithWatch, object client.Object) error {
	wanted := object.DeepCopyObject().(client.Object)
	err := r.create(ctx, c, object)
	differs, ok := errors.AsType[*exit.Failure](err)
	if !ok || !r.Replace || differs.Reason != "" || differs.Code != exit.Conflict {
		return err
	}
	if err := deleteUnbound(ctx, c, object); err != nil {
		return err
	}
	reflect.ValueOf(object).Elem().Set(reflect.ValueOf(wanted).Elem())
	return r.create(ctx, c, object)
}

// create creates the object, or finds that it exists already. A claim that is stored without a block counts as created:
// its status says why it has none.
func (r *Command) create(ctx context.Context, c client.WithWatch, object client.Object) error {
	var options []client.CreateOption
	if r.DryRun == DryRunServer {
		options = append(options, client.DryRunAll)
	}
	wanted := object.DeepCopyObject().(client.Object)
	if claim, ok := object.(*ipamv1alpha1.IPClaim); ok {
		_, err := ipamclient.Ensure(ctx, c, claim, options...)
		if conflict, ok := errors.AsType[*ipamclient.ConflictError](err); ok {
			return exit.Fail(exit.Conflict, instead(claim), "%w", conflict)
		}
		err = whenStored(claim, err)
		if unlike := unlikeOf(wanted, claim); err == nil && len(unlike) > 0 {
			r.Say("claim %s exists and is not changed: %s; kubectl edit ipclaim %s changes it",
				facts.Name(claim), strings.Join(unlike, ", "), facts.Args(claim))
		}
		return err
	}
	err := c.Create(ctx, object, options...)
	if !apierrors.IsAlreadyExists(err) {
		return err
	}
	if err := c.Get(ctx, client.ObjectKeyFromObject(object), object); err != nil {
		return err
	}
	return sameAs(wanted, object)
}

// sameAs returns an error unless an existing object asks for the same as the wanted one.
func sameAs(wanted, there client.Object) error {
	if !there.GetDeletionTimestamp().IsZero() {
		return exit.Fail(exit.Conflict, "try again when it is gone",
			"%s %s is being deleted", facts.Kind(there), facts.Name(there))
	}
	differs, err := ipamclient.Differences(specOf(wanted), specOf(there))
	if err != nil {
		return err
	}
	unlike := unlikeOf(wanted, there)
	for _, one := range differs {
		unlike = append(unlike, one.String())
	}
	if len(unlike) == 0 {
		return nil
	}
	return exit.Fail(exit.Conflict, instead(there), "there is a %s %s already, and it asks for something else: %s",
		facts.Kind(there), facts.Name(there), strings.Join(unlike, ", "))
}

// whenStored returns no error for a claim that is stored and waits.
func whenStored(claim *ipamv1alpha1.IPClaim, err error) error {
	if refused, ok := errors.AsType[*ipamclient.UnmetError](err); ok && refused.Stored {
		return nil
	}
	return exit.Unmet(claim, err)
}

// await waits until the object has its block or can never get it, but not longer than --wait. A claim usually has its
// answer in the response to its CREATE.
func (r *Command) await(ctx context.Context, c client.WithWatch, object client.Object) error {
	if r.wait == 0 {
		return nil
	}
	what := facts.Kind(object) + " " + facts.Name(object)
	tell := r.Waits()
	limited, cancel := context.WithTimeout(ctx, r.wait)
	defer cancel()
	err := ipamclient.Until(limited, c, object, func() bool {
		now := facts.AnswerOf(object)
		if now.Allocated != nil && !now.Given() {
			tell(what + " waits: " + now.Reason())
		}
		return now.Given() || now.Stalled || now.Missing() && !r.Given("wait")
	})
	if ctx.Err() == nil && errors.Is(err, context.DeadlineExceeded) {
		return nil // the output shows the answer so far
	}
	if errors.Is(err, ipamclient.ErrGone) {
		return exit.Fail(exit.Aborted, "", "%s: %w", what, err)
	}
	if errors.Is(err, context.Canceled) { // the caller may not know a generated name
		return exit.Fail(exit.Aborted, stays(object), "%w", err)
	}
	return err
}

// show prints the block, or the object if the caller asked for a form of output.
func (r *Command) show(object client.Object) error {
	now := facts.AnswerOf(object)
	if r.output.Given() {
		if err := r.output.Print(r.Out, object, r.Now); err != nil {
			return err
		}
	}
	if r.wait == 0 && !now.Given() {
		if !r.quiet {
			r.Say("%s %s is created; kubectl ipam %s show %s shows the answer",
				facts.Kind(object), facts.Name(object), facts.Kind(object), facts.Args(object))
		}
		return nil
	}
	if err := now.Err(object); err != nil {
		return err
	}
	if !r.quiet {
		screen.Line(r.ErrOut, "%s %s %s", facts.Kind(object), r.ErrPaint.Bold(facts.Name(object)), r.Aimed(gotFrom(object)))
	}
	for _, warning := range facts.Warnings(object) {
		screen.Line(r.ErrOut, "%s %s", r.ErrPaint.Yellow("warning:"), warning)
	}
	if !r.output.Given() {
		screen.Line(r.Out, "%s", now.Data)
	}
	return nil
}

// gotFrom says which pool a block is from.
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
		by := ""
		if object.Spec.ParentClassName != "" {
			by = " by class " + object.Spec.ParentClassName
		}
		if parent := object.Parent(); parent != nil {
			return "is carved from pool " + parent.Name + by
		}
	case *ipamv1alpha1.IPClass:
		if object.Status.OfferingPools == 0 {
			return "is ready, and no pool backs it yet: " +
				"kubectl ipam pool create POOL --cidr CIDR --visibility platform --class " + object.Name
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
