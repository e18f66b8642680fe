package claim

import (
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/multicluster-runtime/pkg/multicluster"
	mcreconcile "sigs.k8s.io/multicluster-runtime/pkg/reconcile"

	"github.com/kcp-ipam/ipam/allocator/ledger"
	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/controllers/internal/catalog"
	"github.com/kcp-ipam/ipam/controllers/internal/directory"
	"github.com/kcp-ipam/ipam/controllers/internal/inbox"
)

// topic is something whose change may end a claim's wait.
type topic struct {
	kind    topicKind
	cluster ledger.ClusterName // of pools
	name    string
}

type topicKind uint8

const (
	classTopic   topicKind = iota // the class of this name
	defaultTopic                  // any class: which one is the default, for one
	poolTopic                     // the pool of this name
	backingTopic                  // the pools of a workspace that name this class
	labelTopic                    // the pools of a workspace, whatever their name
	recordTopic                   // the IPAllocation of this namespace/name
	pathTopic                     // which workspace has this path
	nameTopic                     // which path the workspace has
	levelTopic                    // the pools of a workspace that are made for this class
)

// ofPools reports whether the topic names pools of a workspace that is known.
func (t topic) ofPools() bool {
	switch t.kind {
	case poolTopic, backingTopic, labelTopic, levelTopic:
		return t.cluster != ""
	default:
		return false
	}
}

// waiting knows which claims wait for what. A claim enters before it reads
// the catalog, so that no change is missed between the read and the wait. The zero
// value is ready; safe for concurrent use.
type waiting struct {
	known  *directory.Directory // nil: every workspace is a tenant
	mu     sync.Mutex
	claims map[multicluster.ClusterName]map[mcreconcile.Request]wait // none that is empty
	topics map[topic]map[mcreconcile.Request]time.Time               // when each claim was made
	woken  map[ledger.ClusterName]*woken                             // none that is empty
	places map[ledger.ClusterName]places                             // none that is zero
}

// whose says whose a claim is.
func (w *waiting) whose(claim mcreconcile.Request) ledger.ClusterName {
	if w.known == nil {
		return ledger.ClusterName(claim.ClusterName)
	}
	return w.known.Ledger(claim.ClusterName).Tenant(claim.Namespace)
}

// wait is the wait of one claim.
type wait struct {
	uid    types.UID
	topics []topic
	at     int  // how many pools
	over   bool // none, as its workspace has too many places
}

// enter has a claim wait for these topics and no others.
func (w *waiting) enter(claim mcreconcile.Request, as *ipamv1alpha1.IPClaim, topics []topic) {
	w.mu.Lock()
	defer w.mu.Unlock()
	known := w.claims[claim.ClusterName][claim]
	if known.uid == as.UID && slices.Equal(known.topics, topics) {
		return
	}
	w.drop(claim)
	if w.claims == nil {
		w.claims, w.places = map[multicluster.ClusterName]map[mcreconcile.Request]wait{}, map[ledger.ClusterName]places{}
		w.topics = map[topic]map[mcreconcile.Request]time.Time{}
	}
	enters := wait{uid: as.UID, topics: topics}
	if known.uid == as.UID { // it still waits where it did
		enters.at, enters.over = known.at, known.over
	}
	if w.claims[claim.ClusterName] == nil {
		w.claims[claim.ClusterName] = map[mcreconcile.Request]wait{}
	}
	w.claims[claim.ClusterName][claim] = enters
	w.count(claim, enters, 1)
	for _, t := range topics {
		if w.topics[t] == nil {
			w.topics[t] = map[mcreconcile.Request]time.Time{}
		}
		w.topics[t][claim] = as.CreationTimestamp.Time
	}
}

// leave ends the claim's wait, and says whose it was. ok is false if it did not wait.
func (w *waiting) leave(claim mcreconcile.Request) (uid types.UID, ok bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	left, ok := w.claims[claim.ClusterName][claim]
	w.drop(claim)
	return left.uid, ok
}

// replaced ends the wait of another claim of this name, and says whose it was. ok is false if there is
// none.
func (w *waiting) replaced(claim mcreconcile.Request, by types.UID) (uid types.UID, ok bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	former, ok := w.claims[claim.ClusterName][claim]
	if !ok || former.uid == by {
		return "", false
	}
	w.drop(claim)
	return former.uid, true
}

// of lists the claims of a workspace that wait for anything.
func (w *waiting) of(cluster multicluster.ClusterName) []mcreconcile.Request {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Collect(maps.Keys(w.claims[cluster]))
}

func (w *waiting) drop(claim mcreconcile.Request) {
	left, ok := w.claims[claim.ClusterName][claim]
	if !ok {
		return
	}
	w.count(claim, left, -1)
	for _, t := range left.topics {
		delete(w.topics[t], claim)
		if len(w.topics[t]) == 0 {
			delete(w.topics, t)
		}
	}
	delete(w.claims[claim.ClusterName], claim)
	if len(w.claims[claim.ClusterName]) == 0 {
		delete(w.claims, claim.ClusterName)
	}
}

// on lists the claims that wait for any of the topics, oldest first.
func (w *waiting) on(topics ...topic) []mcreconcile.Request {
	return inbox.OldestFirst(w.since(topics))
}

// since lists the claims that wait for any of the topics, and when each was made. One
// that waits for several is listed for each.
func (w *waiting) since(topics []topic) []inbox.Waiter {
	w.mu.Lock()
	defer w.mu.Unlock()
	var found []inbox.Waiter
	for _, t := range topics {
		found = slices.Grow(found, len(w.topics[t]))
		for claim, since := range w.topics[t] {
			found = append(found, inbox.Waiter{Request: claim, Since: since})
		}
	}
	return found
}

// topicsOf lists what may change the answer to a claim.
func topicsOf(claim *ipamv1alpha1.IPClaim, from, platform directory.Workspace, find func(string) (directory.Workspace, bool)) []topic {
	spec := claim.Spec
	topics := []topic{{kind: nameTopic, cluster: from.Cluster}}
	in := func(ref *ipamv1alpha1.ProjectRef) ledger.ClusterName {
		if ref == nil {
			return from.Cluster
		}
		topics = append(topics, topic{kind: pathTopic, name: ref.Name})
		workspace, _ := find(ref.Name)
		return workspace.Cluster
	}
	switch {
	case spec.PoolRef != nil:
		return append(topics, topic{poolTopic, in(spec.PoolRef.ProjectRef), spec.PoolRef.Name})
	case spec.PoolSelector != nil:
		return append(topics, topic{kind: labelTopic, cluster: in(spec.PoolSelector.ProjectRef)})
	case spec.ClassName != "":
		return append(append(topics, classTopics(spec.ClassName, from, platform)...), topic{kind: classTopic, name: spec.ClassName})
	default:
		return append(topics, topic{kind: defaultTopic})
	}
}

// topicsOfDefault lists what may change the answer to a claim that gets the default class.
func topicsOfDefault(class string, from, platform directory.Workspace) []topic {
	return append(classTopics(class, from, platform),
		topic{kind: defaultTopic}, topic{kind: classTopic, name: class}, topic{kind: nameTopic, cluster: from.Cluster})
}

func classTopics(class string, from, platform directory.Workspace) []topic {
	topics := []topic{{backingTopic, from.Cluster, class}}
	if platform.Cluster != from.Cluster {
		topics = append(topics, topic{backingTopic, platform.Cluster, class})
	}
	return topics
}

// topicsAbove lists what may change the answer to a claim by a class with parents.
func topicsAbove(view *catalog.View, class string, from, platform directory.Workspace) (topics []topic) {
	of, ok := view.Class(class)
	for ok && of.Spec.ParentClassName != "" && len(topics) < mostAsked { // a cycle is refused elsewhere
		parent := of.Spec.ParentClassName
		topics = append(append(topics, classTopics(parent, from, platform)...), topic{kind: classTopic, name: parent}, topic{levelTopic, from.Cluster, parent})
		if platform.Cluster != from.Cluster {
			topics = append(topics, topic{levelTopic, platform.Cluster, parent})
		}
		of, ok = view.Class(parent)
	}
	return topics
}

func recordTopicOf(cluster ledger.ClusterName, namespace, name string) topic {
	return topic{recordTopic, cluster, namespace + "/" + name}
}

// topicsOfPool lists the topics that a change of a pool touches.
func topicsOfPool(cluster ledger.ClusterName, pools ...*ipamv1alpha1.IPPool) []topic {
	topics := []topic{{kind: labelTopic, cluster: cluster}}
	for _, pool := range pools {
		topics = append(topics, topic{poolTopic, cluster, pool.Name})
		if made := pool.Spec.ClassRef; made != nil {
			topics = append(topics, topic{levelTopic, cluster, made.Name})
		}
		for _, class := range pool.Spec.ClassNames {
			topics = append(topics, topic{backingTopic, cluster, class})
		}
	}
	return topics
}

// topicsOfWorkspace lists the topics that a workspace's name touches.
func topicsOfWorkspace(w directory.Workspace) []topic {
	return []topic{{kind: pathTopic, name: w.Path}, {kind: nameTopic, cluster: w.Cluster}}
}

// topicsOfClass lists the topics that a change of a class touches.
func topicsOfClass(class *ipamv1alpha1.IPClass) []topic {
	return []topic{{kind: classTopic, name: class.Name}, {kind: defaultTopic}}
}

// A claim waits at each pool that could serve it, and each such place takes memory of the leader. A workspace has a
// bounded number of them. Claims beyond it wait at no pool, and look again: a workspace with many of them has a few
// looks a second.

const (
	// askAgain is after how long a claim looks again, at least, that more pools could serve than it waits at.
	askAgain = time.Minute
	// apart is the time between two looks of claims of one workspace that wait at no pool.
	apart = time.Second / 4
)

// places are the places of one workspace.
type places struct {
	taken int
	over  int // claims that got none, as there are too many
}

// occupy notes at how many pools a claim waits that was entered. Its workspace may have most places, of 0 any number.
// If those are too many, the claim has none, and over is how many claims of the workspace have none so; else it is 0.
func (w *waiting) occupy(claim mcreconcile.Request, at, most int) (over int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	as, entered := w.claims[claim.ClusterName][claim]
	if !entered {
		return 0
	}
	w.count(claim, as, -1)
	if as.at, as.over = at, most > 0 && w.places[w.whose(claim)].taken+at > most; as.over {
		as.at = 0
	}
	w.claims[claim.ClusterName][claim] = as
	w.count(claim, as, 1)
	if !as.over {
		return 0
	}
	return w.places[w.whose(claim)].over
}

// count adds the places of a claim to those of its workspace, or takes them from there. The caller holds mu.
func (w *waiting) count(claim mcreconcile.Request, as wait, times int) {
	of := w.places[w.whose(claim)]
	of.taken += times * as.at
	if as.over {
		of.over += times
	}
	if w.places[w.whose(claim)] = of; of == (places{}) {
		delete(w.places, w.whose(claim))
	}
}

// untilTurn is after how long a claim looks again that has no place, as do so many of its workspace.
func untilTurn(over int) time.Duration { return max(askAgain, time.Duration(over)*apart) }

// crowded says that a claim waits at no pool, and why it would.
func crowded(most int, why string) string {
	return fmt.Sprintf("the claims of this workspace wait at %d pools, each pool counted for each claim, which is as many as they may: "+
		"this one waits at none, and looks again from time to time; delete claims, or name a pool in each; %s", most, why)
}
