package controllers

import (
	"sigs.k8s.io/controller-runtime/pkg/manager"
	mcmanager "sigs.k8s.io/multicluster-runtime/pkg/manager"
)

// assembly is a manager that keeps everything that is added until run is called. A running manager would start a
// controller at once, before all of its sources are there, and each source would wait until those before it are filled.
// It is for one goroutine.
type assembly struct {
	mcmanager.Manager
	parts []func() error // each adds one thing to the manager
}

// Add implements [mcmanager.Manager].
func (a *assembly) Add(r mcmanager.Runnable) error {
	a.parts = append(a.parts, func() error { return a.Manager.Add(r) })
	return nil
}

// GetLocalManager implements [mcmanager.Manager].
func (a *assembly) GetLocalManager() manager.Manager {
	return localAssembly{a.Manager.GetLocalManager(), a}
}

// run adds all parts to the manager, in their order.
func (a *assembly) run() error {
	for _, add := range a.parts {
		if err := add(); err != nil {
			return err
		}
	}
	return nil
}

// localAssembly is the local manager of an assembly.
type localAssembly struct {
	manager.Manager
	whole *assembly
}

// Add implements [manager.Manager].
func (l localAssembly) Add(r manager.Runnable) error {
	l.whole.parts = append(l.whole.parts, func() error { return l.Manager.Add(r) })
	return nil
}
