// Package record finds the IPAllocation of a claim. The name of the IPAllocation is a hash of the claim's name. A
// tenant can choose two claim names whose hashes agree in the first 64 bits. So a record counts only if it names the
// claim. If the usual record name of a claim is taken by a record of another claim, the claim has the long record name.
package record

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/controllers/internal/packed"
	"github.com/kcp-ipam/ipam/internal/absent"
)

// Slot is the place of the record for a claim name.
type Slot struct {
	// Name is the name of the record, or the name to give to a new one.
	Name string
	// Record is the record of the claim that has this name, or the record that was retained from that claim; nil if there
	// is none. The claim may be a former one of the same name: compare the UID.
	Record *ipamv1alpha1.IPAllocation
}

// Find returns the slot of a claim name, as a cache or a server shows it.
func Find(ctx context.Context, reader client.Reader, claim client.ObjectKey) (Slot, error) {
	var free string
	for _, name := range ipamv1alpha1.AllocationNames(claim.Namespace, claim.Name) {
		record, err := get(ctx, reader, claim.Namespace, name)
		if err != nil {
			return Slot{}, err
		}
		if record == nil {
			if free == "" {
				free = name
			}
			continue
		}
		if holder, _ := record.HeldBy(); holder == claim.Name {
			return Slot{Name: name, Record: record}, nil
		}
	}
	if free == "" {
		return Slot{}, fmt.Errorf("both names that the IPAllocation of claim %s may have belong to other claims", claim)
	}
	return Slot{Name: free}, nil
}

// Exists reports whether there is a record of the claim with this name and UID. show returns the record of a name as a
// cache keeps it; nil if there is none.
func Exists(
	show func(key client.ObjectKey) (client.Object, error), claim client.ObjectKey, uid types.UID,
) (bool, error) {
	for _, name := range ipamv1alpha1.AllocationNames(claim.Namespace, claim.Name) {
		record, err := show(client.ObjectKey{Namespace: claim.Namespace, Name: name})
		if err != nil {
			return false, err
		}
		if record == nil {
			continue
		}
		if _, holder, _ := packed.HeldBy(record); holder == uid {
			return true, nil
		}
	}
	return false, nil
}

// get reads a record; nil if there is none. The "not found" of a cache names the kind of the object, and that of a
// server names the resource. Any other 404 says nothing about the record.
func get(ctx context.Context, reader client.Reader, namespace, name string) (*ipamv1alpha1.IPAllocation, error) {
	record := &ipamv1alpha1.IPAllocation{}
	err := reader.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, record)
	if absent.Object(err, "ipallocations", name) || absent.Object(err, "IPAllocation", name) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read IPAllocation %s/%s: %w", namespace, name, err)
	}
	return record, nil
}
