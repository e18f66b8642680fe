// Package examples has the programs of docs/go-client.md. The end-to-end tests run them on a real
// kcp.
package examples

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/handler"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/ipamclient"
)

// LabelMachine is on the ConfigMaps that stand for machines.
const LabelMachine = "example.com/machine"

const finalizer = "example.com/address"

// Operator gives each machine an address.
type Operator struct {
	// Client is that of the manager, and reads its cache.
	client.Client
	// Claims reads live.
	Claims client.WithWatch
	// ClassName is the class of the addresses.
	ClassName string
}

// Reconcile gives a machine its address, or takes it back.
func (o *Operator) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	machine := &corev1.ConfigMap{}
	if err := o.Get(ctx, req.NamespacedName, machine); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if _, ours := machine.Labels[LabelMachine]; !ours {
		return ctrl.Result{}, nil
	}
	if !machine.DeletionTimestamp.IsZero() {
		return ctrl.Result{}, o.release(ctx, machine)
	}
	if controllerutil.AddFinalizer(machine, finalizer) { // before the claim, so that none is forgotten
		return ctrl.Result{}, o.Update(ctx, machine)
	}
	return ctrl.Result{}, o.assign(ctx, machine)
}

// assign may run any number of times: the claim has the name of the machine, and keeps its block.
func (o *Operator) assign(ctx context.Context, machine *corev1.ConfigMap) error {
	allocation, err := ipamclient.Ensure(ctx, o.Claims, &ipamv1alpha1.IPClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: machine.Namespace, Name: machine.Name},
		Spec:       ipamv1alpha1.IPClaimSpec{ClassName: o.ClassName},
	})
	if reason := ipamclient.ReasonOf(err); reason != "" {
		// It binds by itself when the cause is gone, which the watch of claims shows.
		return o.note(ctx, machine, "waits: "+string(reason))
	}
	if err != nil {
		return err
	}
	return o.note(ctx, machine, allocation.Prefix.Addr().String())
}

func (o *Operator) release(ctx context.Context, machine *corev1.ConfigMap) error {
	if _, _, err := ipamclient.Release(ctx, o.Claims, client.ObjectKeyFromObject(machine)); err != nil {
		return err
	}
	controllerutil.RemoveFinalizer(machine, finalizer)
	return o.Update(ctx, machine)
}

// note writes the address of a machine, if it has changed.
func (o *Operator) note(ctx context.Context, machine *corev1.ConfigMap, address string) error {
	if machine.Data["address"] == address {
		return nil
	}
	machine.Data = map[string]string{"address": address}
	return o.Update(ctx, machine)
}

// SetUp adds the operator to a manager. A claim has the name of its machine, so an event of one is
// a request for the other.
func (o *Operator) SetUp(mgr ctrl.Manager) error {
	return ctrl.NewControllerManagedBy(mgr).
		Named("addresses").
		For(&corev1.ConfigMap{}).
		Watches(&ipamv1alpha1.IPClaim{}, &handler.EnqueueRequestForObject{}).
		WithOptions(controller.Options{SkipNameValidation: new(true)}).
		Complete(o)
}
