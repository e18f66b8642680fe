package simkcp

import (
	"context"
	"encoding/json"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
)

// User acts in one workspace.
type User struct {
	World   *World
	Cluster string
	// Name is the user's name. Any name will do; masters is in the group system:masters.
	Name string
}

// routed returns the request for an object, or a 404 if the workspace does not serve its kind.
func (u User) routed(plural, namespace, name string) (request, error) {
	group := ipamGroup
	switch plural {
	case "namespaces":
		group = ""
	case "apibindings":
		group = kcpGroup
	}
	t := u.World.tables[group+"/"+plural]
	q := request{table: t, scope: scope{cluster: u.Cluster, namespace: namespace}, version: t.versions[0], name: name, user: u.Name}
	u.World.mu.Lock()
	defer u.World.mu.Unlock()
	if !u.World.served(q.table, q.scope) {
		return q, apierrors.NewNotFound(q.resource(), "")
	}
	q.terminating = u.World.terminating(q)
	return q, nil
}

// Create creates an object, without its status.
func (u User) Create(ctx context.Context, plural string, object any) (*unstructured.Unstructured, error) {
	b, err := json.Marshal(object)
	if err != nil {
		return nil, err
	}
	o, err := received(b)
	if err != nil {
		return nil, err
	}
	delete(o.Object, "status")
	o.SetUID("")
	q, err := u.routed(plural, o.GetNamespace(), o.GetName())
	if err != nil {
		return nil, err
	}
	if u.World.Body != nil {
		pause(ctx, u.World.Body("CREATE "+plural))
	}
	stored, refusal := u.World.create(ctx, q, o)
	if refusal != nil {
		return nil, refusal
	}
	return parse(stored), nil
}

// Get reads an object.
func (u User) Get(plural, namespace, name string) (*unstructured.Unstructured, error) {
	q, err := u.routed(plural, namespace, name)
	if err != nil {
		return nil, err
	}
	u.World.mu.Lock()
	defer u.World.mu.Unlock()
	b, ok := q.objects[q.place()]
	if !ok {
		return nil, apierrors.NewNotFound(q.resource(), name)
	}
	return parse(b), nil
}

// Delete deletes an object.
func (u User) Delete(ctx context.Context, plural, namespace, name string) error {
	q, err := u.routed(plural, namespace, name)
	if err != nil {
		return err
	}
	if _, refusal := u.World.remove(ctx, q, &metav1.DeleteOptions{}); refusal != nil {
		return refusal
	}
	return nil
}

// Patch applies a merge patch to an object.
func (u User) Patch(plural, namespace, name, patch string) error {
	q, err := u.routed(plural, namespace, name)
	if err != nil {
		return err
	}
	if _, refusal := u.World.change(context.Background(), q, types.MergePatchType, []byte(patch)); refusal != nil {
		return refusal
	}
	return nil
}

// UID returns the UID of an object; empty: there is none.
func (u User) UID(plural, namespace, name string) types.UID {
	o, err := u.Get(plural, namespace, name)
	if err != nil {
		return ""
	}
	return o.GetUID()
}
