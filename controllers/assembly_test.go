package controllers

import (
	"context"
	"slices"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/cluster"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	mcmanager "sigs.k8s.io/multicluster-runtime/pkg/manager"
	"sigs.k8s.io/multicluster-runtime/pkg/multicluster"

	"github.com/kcp-ipam/ipam/test/must"
)

// adding is a manager that notes what is added to it.
type adding struct {
	mcmanager.Manager
	added []string
}

func (a *adding) Add(mcmanager.Runnable) error {
	a.added = append(a.added, "everywhere")
	return nil
}

func (a *adding) GetLocalManager() manager.Manager { return &addingHere{all: a} }

type addingHere struct {
	manager.Manager
	all *adding
}

func (a *addingHere) Add(manager.Runnable) error {
	a.all.added = append(a.all.added, "here")
	return nil
}

// everywhere is a runnable of all clusters.
type everywhere struct{ manager.RunnableFunc }

func (everywhere) Engage(context.Context, multicluster.ClusterName, cluster.Cluster) error {
	return nil
}

// A controller starts when all its sources are there, and no earlier: the assembly adds its parts in one go, in order.
func TestAssembly_AddsNothingBeforeItRuns(t *testing.T) {
	t.Parallel()
	under := &adding{}
	a := &assembly{Manager: under}
	nothing := manager.RunnableFunc(func(context.Context) error { return nil })
	must.Do(t, a.GetLocalManager().Add(nothing))
	must.Do(t, a.Add(everywhere{nothing}))
	must.Do(t, a.GetLocalManager().Add(nothing))
	if len(under.added) > 0 {
		t.Errorf("the manager has %v before all is there", under.added)
	}
	must.Do(t, a.run())
	if want := []string{"here", "everywhere", "here"}; !slices.Equal(under.added, want) {
		t.Errorf("the manager has %v, want %v", under.added, want)
	}
}
