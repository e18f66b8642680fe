package consumer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/utils/clock"

	"github.com/kcp-ipam/ipam/allocator/ledger"
	"github.com/kcp-ipam/ipam/controllers/internal/catalog"
	"github.com/kcp-ipam/ipam/controllers/internal/directory"
	"github.com/kcp-ipam/ipam/controllers/internal/live"
)

// World is where consumers and claims are read, by no cache.
type World interface {
	Object(ctx context.Context, cluster ledger.ClusterName, ref live.Ref) (live.Sight, error)
	Holder(ctx context.Context, h ledger.Holder) (live.Answer, error)
}

// Options configure the controller. Clusters, Directory and World are required. The
// zero value of all others is the most careful.
type Options struct {
	Clusters  catalog.Clusters
	Directory *directory.Directory
	World     World

	// Terminating counts a consumer as gone that is being deleted.
	Terminating bool
	// Disrupted counts a consumer as gone that is lost or disrupted by its conditions.
	Disrupted bool
	// Reported are paths, by kind as in Pod or Machine.example.com, to where consumers
	// report their addresses, like status.podIPs.ip. A kind without one is not held to it.
	Reported map[string]string
	// DeleteAbandoned deletes claims whose consumer is gone.
	DeleteAbandoned bool
	// MaxDeletes bounds how many claims of one workspace are deleted in ten minutes,
	// and stops all of it there when more seem abandoned. Default 100.
	MaxDeletes int
	// MaxShare bounds them as a share of the claims of the workspace that name a
	// consumer, where that is more than a few. Default 0.1.
	MaxShare float64
	// Interval between two checks of a claim, jittered by a fifth. Default 30 s.
	Interval time.Duration
	// MinAge is how old a claim must be to be checked. Default 60 s.
	MinAge time.Duration
	// Clock defaults to the real one.
	Clock clock.PassiveClock
}

// Defaults are what the program's flags begin with.
func Defaults() Options {
	return Options{Disrupted: true}.completed()
}

func (o Options) completed() Options {
	o.MaxDeletes = cmp.Or(o.MaxDeletes, 100)
	o.MaxShare = cmp.Or(o.MaxShare, 0.1)
	o.Interval = cmp.Or(o.Interval, 30*time.Second)
	o.MinAge = cmp.Or(o.MinAge, time.Minute)
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	return o
}

// Validate says what is wrong with the options.
func (o Options) Validate() error {
	var errs []error
	if o.Interval < 0 {
		errs = append(errs, fmt.Errorf("an interval of %s has no length; give it one above 0", o.Interval))
	}
	for kind, path := range o.Reported {
		if kind == "" || path == "" {
			errs = append(errs, fmt.Errorf("%q=%q is not a kind and a path; write them like Pod=status.podIPs.ip", kind, path))
		}
	}
	return errors.Join(errs...)
}

var _ World = (*live.Objects)(nil)
