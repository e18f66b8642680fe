package networks

import (
	"context"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"

	"github.com/kcp-ipam/ipam/internal/absent"
	"github.com/kcp-ipam/ipam/test/framework/retry"
)

// patience is how long an unanswered request is repeated. On a busy machine that takes minutes.
const patience = 3 * time.Minute

// objects are the objects of one resource. Each request waits for a worker, which repeats it while it is unanswered.
type objects struct {
	dynamic.ResourceInterface
	resource string
	workers  chan struct{}
}

// read reads an object, which must be there.
func (o objects) read(ctx context.Context, name string) (found *unstructured.Unstructured, err error) {
	err = o.send(ctx, func(ctx context.Context) (err error) {
		found, err = o.Get(ctx, name, metav1.GetOptions{})
		return err
	})
	return found, refused("read "+o.resource+" "+name, err)
}

// find reads an object; nil if there is none.
func (o objects) find(ctx context.Context, name string) (*unstructured.Unstructured, error) {
	found, err := o.read(ctx, name)
	if absent.Object(err, o.resource, name) {
		return nil, nil
	}
	return found, err
}

// create creates an object. If the object exists, an earlier try of the same request has created it.
func (o objects) create(ctx context.Context, object *unstructured.Unstructured) (made *unstructured.Unstructured, err error) {
	err = o.send(ctx, func(ctx context.Context) (err error) {
		made, err = o.Create(ctx, object, metav1.CreateOptions{})
		return err
	})
	if apierrors.IsAlreadyExists(err) {
		return o.read(ctx, object.GetName())
	}
	return made, refused("create "+o.resource+" "+object.GetName(), err)
}

// remove deletes an object, if it is there.
func (o objects) remove(ctx context.Context, name string) error {
	err := o.send(ctx, func(ctx context.Context) error { return o.Delete(ctx, name, metav1.DeleteOptions{}) })
	if absent.Object(err, o.resource, name) {
		return nil
	}
	return refused("delete "+o.resource+" "+name, err)
}

// send sends a request when a worker is free. It may send the request twice.
func (o objects) send(ctx context.Context, request func(context.Context) error) error {
	select {
	case o.workers <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-o.workers }()
	return retry.Answered(ctx, patience, func(error) {}, request)
}
