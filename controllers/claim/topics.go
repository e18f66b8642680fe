package claim

import (
	"github.com/kcp-ipam/ipam/allocator/ledger"
	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/controllers/internal/catalog"
	"github.com/kcp-ipam/ipam/controllers/internal/directory"
)

// topic is something whose change may end a claim's wait.
type topic struct {
	kind    topicKind
	cluster ledger.ClusterName // empty: of all workspaces, or of one that is not known
	name    string
}

type topicKind uint8

const (
	classTopic   topicKind = iota // the class of this name
	defaultTopic                  // any class; each may become the default class, or cease to be it
	poolTopic                     // the pool of this name
	backingTopic                  // the pools of a workspace that name this class
	labelTopic                    // the pools of a workspace, whatever their name
	recordTopic                   // the IPAllocation of this namespace/name
	pathTopic                     // which workspace has this path
	nameTopic                     // which path the workspace has
	levelTopic                    // the pools of a workspace that are made for this class
)

// ofPools reports whether the topic is about pools of a known workspace.
func (t topic) ofPools() bool {
	switch t.kind {
	case poolTopic, backingTopic, labelTopic, levelTopic:
		return t.cluster != ""
	default:
		return false
	}
}

// topicsOf lists the topics whose change may change the answer to a claim.
func topicsOf(
	claim *ipamv1alpha1.IPClaim, from, platform directory.Workspace, find func(string) (directory.Workspace, bool),
) []topic {
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
		return append(append(topics, classTopics(spec.ClassName, from, platform)...),
			topic{kind: classTopic, name: spec.ClassName})
	default:
		return append(topics, topic{kind: defaultTopic})
	}
}

// topicsOfDefault lists the topics of a claim that gets the default class.
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

// topicsAbove lists the topics of the classes above the class of a claim.
func topicsAbove(view *catalog.View, class string, from, platform directory.Workspace) (topics []topic) {
	of, ok := view.Class(class)
	for ok && of.Spec.ParentClassName != "" && len(topics) < mostAsked { // a cycle is refused elsewhere
		parent := of.Spec.ParentClassName
		topics = append(append(topics, classTopics(parent, from, platform)...),
			topic{kind: classTopic, name: parent}, topic{levelTopic, from.Cluster, parent})
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

// topicsOfPool lists the topics that a change of a pool touches. pools has the pool before and after the change.
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

// topicsOfWorkspace lists the topics that a change of a workspace's path touches.
func topicsOfWorkspace(w directory.Workspace) []topic {
	return []topic{{kind: pathTopic, name: w.Path}, {kind: nameTopic, cluster: w.Cluster}}
}

// topicsOfClass lists the topics that a change of a class touches.
func topicsOfClass(class *ipamv1alpha1.IPClass) []topic {
	return []topic{{kind: classTopic, name: class.Name}, {kind: defaultTopic}}
}
