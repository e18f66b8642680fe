package live

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	apisv1alpha1 "github.com/kcp-dev/sdk/apis/apis/v1alpha1"
	apisv1alpha2 "github.com/kcp-dev/sdk/apis/apis/v1alpha2"
	conditionsv1alpha1 "github.com/kcp-dev/sdk/apis/third_party/conditions/apis/conditions/v1alpha1"
	"github.com/kcp-dev/sdk/apis/third_party/conditions/util/conditions"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kcp-ipam/ipam/controllers/internal/directory"
	"github.com/kcp-ipam/ipam/internal/absent"
)

// view has the facts that were read from the endpoint slice of the export.
type view struct {
	urls  []string  // of the export's virtual workspace, one per shard that has a binding
	gap   string    // the result of Gap
	unmet string    // names a condition that is missing or not true; empty if there is none
	made  time.Time // when the slice was made
}

// Endpoints lists the URLs of all endpoints of the export, read after the call. It fails if the slice may lack
// endpoints, or if the export shows other objects than the ledger knows.
func (r *Reader) Endpoints(ctx context.Context) ([]string, error) {
	if err := r.shows(ctx); err != nil {
		return nil, err
	}
	seen, err := r.endpoints.get(ctx)
	if err == nil && seen.gap != "" {
		err = fmt.Errorf("endpoint slice %s may lack endpoints: %s", r.opts.Slice, seen.gap)
	}
	return seen.urls, err
}

// ErrInvalid is wrapped in an error of Valid if there is no endpoint slice, if kcp finds it invalid, or if the export
// has another identity than the ledger.
var ErrInvalid = errors.New("the export is not served")

// Valid returns an error unless kcp finds the endpoint slice valid, and the export shows the objects that the ledger
// knows. The answer comes from reads that began after the call. A valid slice may still be narrowed to some shards.
func (r *Reader) Valid(ctx context.Context) error {
	seen, err := r.endpoints.get(ctx)
	if err == nil && seen.unmet != "" {
		err = fmt.Errorf("%w: endpoint slice %s is not valid: %s", ErrInvalid, r.opts.Slice, seen.unmet)
	}
	if absent.Object(err, "apiexportendpointslices", r.opts.Slice) {
		err = fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	if err != nil {
		return err
	}
	return r.shows(ctx)
}

// ExportGone reports whether the platform has lost its APIExport. The answer comes from a read that began after the
// call. Without an APIExport no workspace can be read. On a cluster without kcp it is always false.
func (r *Reader) ExportGone(ctx context.Context) (bool, error) {
	if r.opts.Slice == "" {
		return false, nil
	}
	_, err := r.export(ctx)
	if absent.Object(err, "apiexports", r.opts.Slice) {
		return true, nil
	}
	return false, err
}

// Answers returns nil as soon as one endpoint has answered a read that began after the call. It asks the endpoints of
// the slice that was read last. A refusal does not count as an answer.
func (r *Reader) Answers(ctx context.Context) error {
	listed := r.listed.Load()
	if listed == nil {
		return fmt.Errorf("endpoint slice %s was not read yet", r.opts.Slice)
	}
	_, ok, err := first(ctx, *listed, func(ctx context.Context, endpoint string) (none struct{}, ok bool, err error) {
		c, err := r.at(endpoint, "*")
		if err == nil {
			err = c.List(ctx, &apisv1alpha2.APIBindingList{}, client.Limit(1))
		}
		return none, err == nil, err
	})
	if !ok && err == nil {
		err = fmt.Errorf("endpoint slice %s has no endpoints", r.opts.Slice)
	}
	return err
}

func (r *Reader) readSlice(ctx context.Context) (view, error) {
	if r.opts.Slice == "" {
		return view{}, nil
	}
	c, err := r.at(r.opts.Config.Host, "")
	if err != nil {
		return view{}, err
	}
	slice := &apisv1alpha1.APIExportEndpointSlice{}
	if err := c.Get(ctx, client.ObjectKey{Name: r.opts.Slice}, slice); err != nil {
		return view{}, fmt.Errorf("read endpoint slice %s: %w", r.opts.Slice, err)
	}
	seen := r.view(slice)
	r.listed.Store(&seen.urls)
	return seen, nil
}

func (r *Reader) view(slice *apisv1alpha1.APIExportEndpointSlice) view {
	seen := view{
		gap: Gap(slice, directory.Workspace{Cluster: r.opts.Platform, Path: r.opts.Path}), unmet: unmet(slice),
		made: slice.CreationTimestamp.Time,
	}
	for _, endpoint := range slice.Status.APIExportEndpoints {
		seen.urls = append(seen.urls, endpoint.URL)
	}
	return seen
}

// Gap describes a sign that a slice may lack endpoints of shards that have a binding to the platform's export, and
// names the field that shows this sign. It is empty if there is none. If there is one, nothing may be concluded from
// the absence of an object at all endpoints.
//
// kcp finds a slice valid even if a partition narrows it to some shards. If kcp does not find the APIExport or the
// partition, it removes all endpoints. No shard enters its own endpoint before all conditions are true.
func Gap(slice *apisv1alpha1.APIExportEndpointSlice, platform directory.Workspace) string {
	export := slice.Spec.APIExport
	switch {
	case !slice.DeletionTimestamp.IsZero():
		return "metadata.deletionTimestamp: it is being deleted"
	case export.Name != slice.Name ||
		platform.Path != "" && !slices.Contains([]string{"", string(platform.Cluster), platform.Path}, export.Path):
		return fmt.Sprintf("spec.export: it is of %s:%s, not of the platform's export %s",
			export.Path, export.Name, slice.Name)
	case slice.Spec.Partition != "":
		return fmt.Sprintf("spec.partition: %q leaves out shards; remove it", slice.Spec.Partition)
	case slice.Status.ShardSelector != "":
		return fmt.Sprintf("status.shardSelector: %q leaves out shards", slice.Status.ShardSelector)
	}
	return unmet(slice)
}

// unmet names a condition of a slice that is missing or not true; empty if there is none.
func unmet(slice *apisv1alpha1.APIExportEndpointSlice) string {
	for _, kind := range []conditionsv1alpha1.ConditionType{apisv1alpha1.APIExportValid, apisv1alpha1.PartitionValid} {
		if !conditions.Has(slice, kind) {
			return fmt.Sprintf("status.conditions: %s is missing", kind)
		}
	}
	for _, condition := range slice.Status.Conditions {
		if condition.Status != corev1.ConditionTrue {
			return fmt.Sprintf("status.conditions: %s is %q (%s)", condition.Type, condition.Status, condition.Message)
		}
	}
	return ""
}
