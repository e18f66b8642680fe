package claim

import (
	"slices"
	"sync"

	mcreconcile "sigs.k8s.io/multicluster-runtime/pkg/reconcile"

	"github.com/kcp-ipam/ipam/allocator"
	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/controllers/directory"
)

// topic is something whose change may end a claim's wait.
type topic struct {
	kind    topicKind
	cluster allocator.ClusterName // of pools
	name    string
}

type topicKind uint8

const (
	classTopic   topicKind = iota // the class of this name
	defaultTopic                  // which class is the default
	poolTopic                     // the pool of this name
	backingTopic                  // the pools of a workspace that name this class
	labelTopic                    // the pools of a workspace, whatever their name
	recordTopic                   // the IPAllocation of this namespace/name
)

// waiting knows which claims wait for what. A claim enters before it looks at
// the catalog, so that no change slips between its look and its wait. The zero
// value is ready; safe for concurrent use.
type waiting struct {
	mu     sync.Mutex
	claims map[mcreconcile.Request][]topic
	topics map[topic]map[mcreconcile.Request]struct{}
}

// enter has the claim wait for these topics and no others.
func (w *waiting) enter(claim mcreconcile.Request, topics []topic) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if slices.Equal(w.claims[claim], topics) {
		return
	}
	w.drop(claim)
	if w.claims == nil {
		w.claims = map[mcreconcile.Request][]topic{}
		w.topics = map[topic]map[mcreconcile.Request]struct{}{}
	}
	w.claims[claim] = topics
	for _, t := range topics {
		if w.topics[t] == nil {
			w.topics[t] = map[mcreconcile.Request]struct{}{}
		}
		w.topics[t][claim] = struct{}{}
	}
}

// leave ends the claim's wait.
func (w *waiting) leave(claim mcreconcile.Request) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.drop(claim)
}

func (w *waiting) drop(claim mcreconcile.Request) {
	for _, t := range w.claims[claim] {
		delete(w.topics[t], claim)
		if len(w.topics[t]) == 0 {
			delete(w.topics, t)
		}
	}
	delete(w.claims, claim)
}

// on lists the claims that wait for any of the topics.
func (w *waiting) on(topics ...topic) []mcreconcile.Request {
	w.mu.Lock()
	defer w.mu.Unlock()
	var claims []mcreconcile.Request
	for _, t := range topics {
		for claim := range w.topics[t] {
			claims = append(claims, claim)
		}
	}
	return claims
}

// topicsOf lists what may change the answer to a claim.
func topicsOf(claim *ipamv1alpha1.IPClaim, from, platform directory.Workspace, find func(string) (directory.Workspace, bool)) []topic {
	spec := claim.Spec
	in := func(ref *ipamv1alpha1.ProjectRef) allocator.ClusterName {
		if ref == nil {
			return from.Cluster
		}
		workspace, _ := find(ref.Name)
		return workspace.Cluster
	}
	switch {
	case spec.PoolRef != nil:
		return []topic{{poolTopic, in(spec.PoolRef.ProjectRef), spec.PoolRef.Name}}
	case spec.PoolSelector != nil:
		return []topic{{kind: labelTopic, cluster: in(spec.PoolSelector.ProjectRef)}}
	case spec.ClassName != "":
		return append(classTopics(spec.ClassName, from, platform), topic{kind: classTopic, name: spec.ClassName})
	default:
		return []topic{{kind: defaultTopic}, {kind: labelTopic, cluster: from.Cluster}, {kind: labelTopic, cluster: platform.Cluster}}
	}
}

func classTopics(class string, from, platform directory.Workspace) []topic {
	topics := []topic{{backingTopic, from.Cluster, class}}
	if platform.Cluster != from.Cluster {
		topics = append(topics, topic{backingTopic, platform.Cluster, class})
	}
	return topics
}

func recordTopicOf(cluster allocator.ClusterName, namespace, name string) topic {
	return topic{recordTopic, cluster, namespace + "/" + name}
}

// topicsOfPool lists the topics that a change of a pool touches.
func topicsOfPool(cluster allocator.ClusterName, pools ...*ipamv1alpha1.IPPool) []topic {
	topics := []topic{{kind: labelTopic, cluster: cluster}}
	for _, pool := range pools {
		topics = append(topics, topic{poolTopic, cluster, pool.Name})
		for _, class := range pool.Spec.ClassNames {
			topics = append(topics, topic{backingTopic, cluster, class})
		}
	}
	return topics
}

// topicsOfClass lists the topics that a change of a class touches.
func topicsOfClass(class *ipamv1alpha1.IPClass) []topic {
	return []topic{{kind: classTopic, name: class.Name}, {kind: defaultTopic}}
}
