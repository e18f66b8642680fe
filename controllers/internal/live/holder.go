package live

import (
	"context"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kcp-ipam/ipam/allocator/ledger"
	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/controllers/internal/promise"
	"github.com/kcp-ipam/ipam/internal/absent"
)

// Verdict is the result of asking the servers for the holder of a block.
type Verdict int

const (
	// Unknown: no server that answered serves the holder's workspace, or a server could not be asked. Nothing may be
	// concluded.
	Unknown Verdict = iota
	// Alive: the object exists, with the UID or the allocation ID that holds the block.
	Alive
	// Gone: a server that serves the workspace says that the object does not
	// exist, or that another object has its name.
	Gone
	// Unbound: every endpoint listed its bindings, and the workspace is in none of the lists. The holder is gone if a
	// second verdict, some time later, is also Unbound.
	Unbound
	// NoEndpoint: the export has no endpoint at all, for example because the last tenant left. The holder is gone only if
	// the binding of its workspace was seen to be deleted.
	NoEndpoint
)

// Answer is a verdict. For Alive and Gone it also has an uncached client of the holder's workspace, at the server that
// has answered.
type Answer struct {
	Verdict Verdict
	// Leaving, of Alive: the object is being deleted.
	Leaving bool
	Client  client.Client
	// Object, of Alive, is the object as it was read. Of Gone, it is another object that has the name now; nil if there is
	// none.
	Object client.Object
	// Revision is the server's resourceVersion at a moment after the object was found gone. If it is older than the
	// resourceVersion of the object itself, the server was restored from a backup, and knows nothing of the object.
	Revision string
	// Since, of Unbound, is the field Since of the Census that has shown it.
	Since time.Time
	// Served, of Gone, is when kcp bound the present binding of the workspace, by kcp's clock, in whole seconds. A claim
	// that is older went with a former binding. Zero: the workspace is the platform, or kcp has bound none of its
	// bindings.
	Served time.Time
}

// Covers reports whether the verdict Unbound counts for an object that was made at this time. It does not count for an
// object that is older than the endpoint slice: the object may be on a shard that has been away since the slice was
// made. The times of kcp are in whole seconds.
func (a Answer) Covers(made time.Time) bool { return made.After(a.Since.Add(time.Second)) }

// Holder asks whether the object that holds a block still exists. If Holder fails, the verdict is Unknown.
func (r *Reader) Holder(ctx context.Context, h ledger.Holder) (Answer, error) {
	if h.Cluster == r.opts.Platform {
		return r.holderOnPlatform(ctx, h)
	}
	if r.opts.Slice == "" {
		return Answer{}, nil // of another cluster, whose blocks are in the same ledger
	}
	seen, err := r.endpoints.get(ctx)
	if err != nil {
		return Answer{}, err
	}
	bounded, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	answer, ok, err := first(bounded, seen.urls, func(ctx context.Context, endpoint string) (Answer, bool, error) {
		return r.holderBound(ctx, endpoint, h)
	})
	switch {
	case err != nil || answer.Verdict == Alive:
		return answer, err
	case !ok:
		answer, err = r.unbound(ctx, h.Cluster)
	}
	if err == nil {
		err = r.shows(ctx) // after the object was not found: before, the export may have been another one
	}
	if err != nil {
		return Answer{}, err
	}
	return answer, nil
}

// Lacks asks one server, which is known to serve the holder's workspace, and reports whether that server says that it
// does not have the object. That alone proves nothing: a server that does not serve the workspace any more, or was
// restored from a backup, may say the same. workspace is a client of the workspace at that server, for the proof: see
// package release. An error proves nothing either.
func (r *Reader) Lacks(ctx context.Context, h ledger.Holder) (workspace client.Client, ok bool, err error) {
	host, cluster := r.opts.Config.Host, ""
	if h.Cluster != r.opts.Platform {
		if host, ok = r.opts.Endpoint(h.Cluster); !ok {
			return nil, false, nil
		}
		cluster = string(h.Cluster)
	}
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	answer, err := r.holderAt(ctx, host, cluster, h)
	return answer.Client, answer.Verdict == Gone && answer.Object == nil, err
}

// Existed reports whether the claim existed at a past revision of the server of this client. known is false if the
// server does not keep that revision any more.
//
// Source: https://kubernetes.io/docs/reference/using-api/api-concepts/#resource-versions, resourceVersionMatch=Exact.
func (r *Reader) Existed(
	ctx context.Context, workspace client.Client, h ledger.Holder, revision string,
) (existed, known bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	claims := &ipamv1alpha1.IPClaimList{}
	err = workspace.List(ctx, claims, client.InNamespace(h.Namespace), &client.ListOptions{
		FieldSelector: fields.OneTermEqualSelector(metav1.ObjectNameField, h.Name),
		Raw: &metav1.ListOptions{
			ResourceVersion: revision, ResourceVersionMatch: metav1.ResourceVersionMatchExact,
		},
	})
	if apierrors.IsResourceExpired(err) {
		return false, false, nil
	}
	return slices.ContainsFunc(claims.Items, func(c ipamv1alpha1.IPClaim) bool { return Is(&c, h) }), err == nil, err
}

// holderBound reads the object at one endpoint. ok reports whether the answer is definite: the object is there, or it
// is not there and its workspace is bound at that endpoint.
func (r *Reader) holderBound(
	ctx context.Context, endpoint string, h ledger.Holder,
) (answer Answer, ok bool, err error) {
	answer, err = r.holderAt(ctx, endpoint, string(h.Cluster), h)
	if err != nil || answer.Verdict == Alive {
		return answer, err == nil, err
	}
	here, err := r.serves.get(ctx, workspaceAt{endpoint, h.Cluster}) // shared with other claims that went
	if err != nil {
		return Answer{}, false, ignoreElsewhere(err)
	}
	since, bound := here.clusters[h.Cluster]
	answer.Revision, answer.Served = here.revision, since
	return answer, answer.Verdict == Gone && bound, nil
}

func (r *Reader) holderOnPlatform(ctx context.Context, h ledger.Holder) (Answer, error) {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	answer, err := r.holderAt(ctx, r.opts.Config.Host, "", h)
	if err != nil || answer.Verdict != Gone {
		return answer, err
	}
	pools := &ipamv1alpha1.IPPoolList{} // any list tells the revision
	if err := answer.Client.List(ctx, pools, client.Limit(1)); err != nil {
		return Answer{}, err
	}
	answer.Revision = pools.ResourceVersion
	return answer, nil
}

// unbound confirms by complete lists that no endpoint serves the workspace.
func (r *Reader) unbound(ctx context.Context, cluster ledger.ClusterName) (Answer, error) {
	census, ok, err := r.Census(ctx)
	switch {
	case !ok, census.Bound[cluster]:
		return Answer{}, err // it may be on a shard that is not listed
	case census.Endpoints == 0:
		return Answer{Verdict: NoEndpoint}, nil
	default:
		return Answer{Verdict: Unbound, Since: census.Since}, nil
	}
}

// holderAt reads the object at one server. A 404 counts as Gone only if it names the object and its resource. The 404
// of a server that does not serve the workspace names neither.
func (r *Reader) holderAt(ctx context.Context, host, cluster string, h ledger.Holder) (Answer, error) {
	c, err := r.at(host, cluster)
	if err != nil {
		return Answer{}, err
	}
	if len(validation.NameIsDNSSubdomain(h.Name, false)) > 0 {
		return Answer{Verdict: Gone, Client: c}, nil // no server stores an object of this name
	}
	obj, resource := holderObject(h)
	err = c.Get(ctx, client.ObjectKey{Namespace: h.Namespace, Name: h.Name}, obj)
	switch {
	case err == nil && Is(obj, h):
		return Answer{Verdict: Alive, Leaving: !obj.GetDeletionTimestamp().IsZero(), Client: c, Object: obj}, nil
	case err == nil:
		return Answer{Verdict: Gone, Client: c, Object: obj}, nil
	case absent.Object(err, resource, h.Name):
		return Answer{Verdict: Gone, Client: c}, nil
	default:
		return Answer{}, ignoreElsewhere(err)
	}
}

// Is reports whether an object that has the holder's name is the holder: it has the holder's UID, or shows the holder's
// allocation ID.
func Is(obj client.Object, h ledger.Holder) bool {
	claim, ok := obj.(*ipamv1alpha1.IPClaim)
	return obj.GetUID() == types.UID(h.Claim) || ok && promise.Is(h.Cluster, claim, h.Claim)
}

func holderObject(h ledger.Holder) (obj client.Object, resource string) {
	if h.Namespace == "" {
		return &ipamv1alpha1.IPPool{}, "ippools"
	}
	return &ipamv1alpha1.IPClaim{}, "ipclaims"
}

// elsewhere reports whether an error is the answer of a server that does not serve the workspace.
func elsewhere(err error) bool {
	return apierrors.IsNotFound(err) || apierrors.IsForbidden(err)
}

// ignoreElsewhere returns nil if an error is the answer of a server that does not serve the workspace, because that
// answer proves nothing. It returns any other error as it is.
func ignoreElsewhere(err error) error {
	if elsewhere(err) {
		return nil
	}
	return err
}
