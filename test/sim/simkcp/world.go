package simkcp

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/kcp-dev/logicalcluster/v3"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
)

// Platform is the logical cluster of the platform, and PlatformPath its path.
const (
	Platform     = "platform00000000"
	PlatformPath = "root:ipam"

	firstIdentity = "5e0e5f7d3a0c4b2f9f6e1d8c7b6a59483726150493827160"
)

// World is the server. It is safe for concurrent use; its exported fields are set before the first request. If users
// delete bindings or namespaces, or make bindings, close the world at the end: kcp goes on working after its answer.
type World struct {
	mu       sync.Mutex
	tables   map[string]*table // by group/plural
	revision int64
	uids     atomic.Int64
	epochs   map[string]int // by shard; grows when all watches of the shard end
	paths    map[string]string
	shards   map[string]string                      // by cluster
	hooks    map[string]registration                // by plural
	bindings map[place]bound                        // as they were last parsed
	identity string                                 // of the export
	hidden   map[string]map[string]map[place][]byte // the tenants' objects of an identity, by table

	ctx    context.Context
	cancel context.CancelFunc

	// Door reaches the webhooks. Nil: none is called.
	Door Door
	// Delay returns how long a request takes between admission and the store. If it is negative, the request fails
	// there.
	Delay func(what string) time.Duration
	// Body, unless nil, returns how long a user's CREATE waits after its routing and before its admission.
	Body func(what string) time.Duration
	// StoreUnbound lets kcp store a CREATE that was routed before its workspace unbound, as a real kcp does. Otherwise
	// the answer is 404.
	StoreUnbound bool
	// Step is how long kcp pauses between two objects that it deletes, and before it binds.
	Step time.Duration
	// OnCommit, unless nil, is called for each change, in order, with the object as it is stored. It must not call the
	// world.
	OnCommit func(kind, plural, cluster string, o *unstructured.Unstructured, stored []byte)
}

// New returns a world with the platform's workspace and its export.
func New() *World {
	w := &World{
		tables: map[string]*table{}, revision: 1000, hooks: map[string]registration{}, bindings: map[place]bound{},
		paths: map[string]string{PlatformPath: Platform}, Delay: func(string) time.Duration { return 0 },
		epochs: map[string]int{}, shards: map[string]string{}, identity: firstIdentity, hidden: map[string]map[string]map[place][]byte{},
	}
	w.ctx, w.cancel = context.WithCancel(context.Background())
	for _, k := range kinds {
		w.tables[k.group+"/"+k.plural] = &table{kind: k, objects: map[place][]byte{}, bare: map[place]bool{}, news: make(chan struct{}), begin: w.revision, shardOf: w.shardOf}
	}
	w.must(kcpGroup+"/apiexports", Platform, fmt.Sprintf(
		`{"kind":"APIExport","metadata":{"name":%q,"annotations":{"kcp.io/path":%q}},"spec":{},"status":{"identityHash":%q}}`,
		ipamGroup, PlatformPath, w.identity))
	w.must(kcpGroup+"/apiexportendpointslices", Platform, fmt.Sprintf(
		`{"kind":"APIExportEndpointSlice","metadata":{"name":%q},"spec":{"export":{"name":%q,"path":%q}},"status":{"conditions":%s}}`,
		ipamGroup, ipamGroup, PlatformPath, conditions("APIExportValid", "PartitionValid")))
	w.start(w.goOn)
	return w
}

// goOn moves the revision of the world on. A real kcp writes leases and events all the time, so that a kcp that was
// restored from an older copy passes the revision of that loss sooner or later.
func (w *World) goOn(ctx context.Context) {
	for ctx.Err() == nil {
		pause(ctx, time.Second)
		w.mu.Lock()
		w.revision++
		w.mu.Unlock()
	}
}

// Close ends what the world does by itself.
func (w *World) Close() { w.cancel() }

// start runs what kcp does by itself, until the world is closed.
func (w *World) start(work func(context.Context)) { go work(w.ctx) }

// conditions returns true conditions as JSON.
func conditions(kinds ...string) string {
	list, comma := "[", ""
	for _, k := range kinds {
		list += fmt.Sprintf(`%s{"type":%q,"status":"True","lastTransitionTime":%q}`, comma, k, time.Now().UTC().Format(time.RFC3339))
		comma = ","
	}
	return list + "]"
}

// must stores an object that kcp itself makes.
func (w *World) must(table, cluster, text string) {
	o := parse([]byte(text))
	w.mu.Lock()
	defer w.mu.Unlock()
	p := place{cluster, o.GetNamespace(), o.GetName()}
	w.identify(w.tables[table], p, o)
	if _, err := w.store(w.tables[table], p, o); err != nil {
		panic(err)
	}
}

// commit stores an object at the next revision, and wakes the watches. For a deleted object, the watches get the
// object as it was stored. mu is held.
func (w *World) commit(t *table, p place, kind string, o *unstructured.Unstructured) []byte {
	w.revision++
	if kind == deleted {
		o = parse(t.objects[p])
	}
	o.SetResourceVersion(strconv.FormatInt(w.revision, 10))
	o.SetAPIVersion(t.apiVersion(t.versions[0]))
	delete(t.bare, p)
	b, before := text(o), t.objects[p]
	if kind == deleted {
		delete(t.objects, p)
	} else {
		t.objects[p] = b
	}
	t.log = append(t.log, event{w.revision, kind, p, b, before})
	t.wake()
	if w.OnCommit != nil {
		w.OnCommit(kind, t.plural, p.cluster, o, b)
	}
	if t.plural == "apibindings" {
		w.publish()
	}
	return b
}

// store creates an object. mu is held.
func (w *World) store(t *table, p place, o *unstructured.Unstructured) ([]byte, *apierrors.StatusError) {
	if _, ok := t.objects[p]; ok {
		return nil, apierrors.NewAlreadyExists(t.resource(), p.name)
	}
	b := w.commit(t, p, added, o)
	t.bare[p] = true
	return b, nil
}

// identify gives a new object its metadata.
func (w *World) identify(t *table, p place, o *unstructured.Unstructured) {
	uid := w.uids.Add(1)
	o.SetKind(t.name)
	o.SetNamespace(p.namespace)
	o.SetName(p.name)
	o.SetUID(types.UID(fmt.Sprintf("%08x-0000-4000-8000-%012x", uid, uid)))
	o.SetGeneration(1)
	o.SetCreationTimestamp(metav1.NewTime(time.Now()))
	o.SetDeletionTimestamp(nil)
	annotate(o, logicalcluster.AnnotationKey, p.cluster)
}

// take deletes an object past admission. If the object has finalizers, take marks it as being deleted. mu is held.
func (w *World) take(t *table, p place) (after *unstructured.Unstructured, gone bool) {
	stored, ok := t.objects[p]
	if !ok {
		return nil, true
	}
	o := parse(stored)
	if t.plural == "namespaces" {
		if o.GetDeletionTimestamp() == nil {
			markNamespace(o)
			w.commit(t, p, modified, o)
		}
		return o, false
	}
	if len(o.GetFinalizers()) == 0 {
		w.commit(t, p, deleted, o)
		return o, true
	}
	if leave(o) {
		w.commit(t, p, modified, o)
	}
	return o, false
}

// leave marks an object as being deleted, and reports whether that is new.
func leave(o *unstructured.Unstructured) bool {
	if o.GetDeletionTimestamp() != nil {
		return false
	}
	o.SetDeletionTimestamp(new(metav1.Now()))
	o.SetDeletionGracePeriodSeconds(new(int64(0)))
	o.SetGeneration(o.GetGeneration() + 1)
	return true
}

// pause waits for a duration, or until ctx ends.
func pause(ctx context.Context, d time.Duration) {
	if d <= 0 {
		return
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
