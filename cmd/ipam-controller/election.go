package main

import (
	"errors"
	"fmt"
	"time"

	"github.com/spf13/pflag"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/kcp-ipam/ipam/workspaces"
)

// election says how replicas choose the leader: by a lease in the platform workspace. Allocations are safe even without
// it; see docs/decisions/0016.
type election struct {
	on bool
	// lease is how long the other replicas wait for a leader that does not renew its lease.
	lease time.Duration
	// renew is how long a leader tries to renew its lease. Then its process ends.
	renew time.Duration
	// retry is how often the leader renews the lease, and how often the others look whether it is free.
	retry time.Duration
}

func (e *election) addFlags(f *pflag.FlagSet) {
	f.BoolVar(&e.on, "leader-elect", e.on, "let one of several replicas work at a time; needs --etcd-servers")
	e.addTimeFlags(f)
}

// addTimeFlags adds the flags for the times of the election.
func (e *election) addTimeFlags(f *pflag.FlagSet) {
	f.DurationVar(&e.lease, "leader-elect-lease-duration", e.lease,
		"how long the other replicas wait for a leader that is silent: claims wait as long when it was killed; "+
			"in whole seconds")
	f.DurationVar(&e.renew, "leader-elect-renew-deadline", e.renew,
		"how long a leader that cannot renew its lease goes on; shorter than the lease")
	f.DurationVar(&e.retry, "leader-elect-retry-period", e.retry,
		"how often the leader renews, and the others look whether the lease is free")
}

func (e *election) validate() error {
	if e.lease < time.Second || e.lease%time.Second != 0 {
		return fmt.Errorf("--leader-elect-lease-duration is %s; give it whole seconds", e.lease)
	}
	// client-go requires this: its retries are jittered, and may come a fifth late.
	if e.retry <= 0 || e.renew <= e.retry*6/5 || e.renew >= e.lease {
		return errors.New("give --leader-elect-lease-duration more than --leader-elect-renew-deadline, " +
			"and that more than 1.2 times --leader-elect-retry-period")
	}
	return nil
}

// configure makes a manager take part in the election. A leader that stops in good order releases the lease when its
// reconciles have ended. The process must end then, and does.
func (e *election) configure(o *manager.Options) {
	o.LeaderElection = e.on
	o.LeaderElectionID = "ipam-controller"
	o.LeaderElectionNamespace = workspaces.ControllerNamespace
	o.LeaderElectionReleaseOnCancel = true
	o.LeaseDuration, o.RenewDeadline, o.RetryPeriod = &e.lease, &e.renew, &e.retry
}
