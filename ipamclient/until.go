package ipamclient

import (
	"context"
	"fmt"
	"reflect"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	watchtools "k8s.io/client-go/tools/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
)

// Until watches a stored object (a claim, a pool or a class) until done returns true for it, and leaves it as last
// seen. It calls done with the object as it is given, then as it is read, and after each change. It returns [ErrGone]
// when the object is deleted, and the context's error when the context ends.
func Until(ctx context.Context, c client.WithWatch, object client.Object, done func() bool) error {
	for !done() {
		err := follow(ctx, c, object, done)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if !apierrors.IsResourceExpired(err) && !apierrors.IsGone(err) {
			return err
		}
	}
	return nil
}

// follow reads the object and watches it from there on. It lists rather than gets, because the
// version of an object that has not changed for long is too old to watch from.
func follow(ctx context.Context, c client.WithWatch, object client.Object, done func() bool) error {
	list, err := listFor(c, object)
	if err != nil {
		return err
	}
	named := fields.OneTermEqualSelector(metav1.ObjectNameField, object.GetName())
	where := client.ListOptions{Namespace: object.GetNamespace(), FieldSelector: named}
	if err := c.List(ctx, list, &where); err != nil {
		return err
	}
	var items []client.Object
	err = meta.EachListItem(list, func(item runtime.Object) error {
		items = append(items, item.(client.Object))
		return nil
	})
	if err != nil {
		return err
	}
	if len(items) != 1 || object.GetUID() != "" && items[0].GetUID() != object.GetUID() {
		return ErrGone
	}
	if become(object, items[0]); done() {
		return nil
	}
	changes := &cache.ListWatch{WatchFuncWithContext: func(
		ctx context.Context, options metav1.ListOptions,
	) (watch.Interface, error) {
		return c.Watch(ctx, list, &client.ListOptions{Namespace: where.Namespace, FieldSelector: named, Raw: &options})
	}}
	_, err = watchtools.Until(ctx, list.GetResourceVersion(), changes, func(event watch.Event) (bool, error) {
		switch event.Type {
		case watch.Deleted:
			return false, ErrGone
		case watch.Error:
			return false, apierrors.FromObject(event.Object)
		default:
		}
		if seen, ok := event.Object.(client.Object); ok {
			become(object, seen)
		}
		return done(), nil
	})
	return err
}

// become gives an object the state in which it was seen.
func become(object, seen client.Object) {
	reflect.ValueOf(object).Elem().Set(reflect.ValueOf(seen).Elem())
}

// listFor returns an empty list of the kind of an object.
func listFor(c client.Client, object client.Object) (client.ObjectList, error) {
	kind, err := apiutil.GVKForObject(object, c.Scheme())
	if err != nil {
		return nil, err
	}
	kind.Kind += "List"
	made, err := c.Scheme().New(kind)
	if err != nil {
		return nil, err
	}
	list, ok := made.(client.ObjectList)
	if !ok {
		return nil, fmt.Errorf("%s is no list of objects", kind)
	}
	return list, nil
}
