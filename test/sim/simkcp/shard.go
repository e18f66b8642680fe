package simkcp

import (
	"maps"
	"slices"
)

// FirstShard is the shard of the platform, and of each workspace that Place has not put elsewhere.
const FirstShard = "shard-0"

// Place puts a workspace on a shard. Call it before [World.Workspace].
func (w *World) Place(cluster, shard string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.shards[cluster] = shard
}

// shardOf returns the shard of a workspace. mu is held.
func (w *World) shardOf(cluster string) string {
	if shard, ok := w.shards[cluster]; ok {
		return shard
	}
	return FirstShard
}

// publish writes into the endpoint slice the URLs of the shards that have a binding. mu is held.
func (w *World) publish() {
	shards := map[string]bool{}
	for p := range w.tables[kcpGroup+"/apibindings"].objects {
		shards[w.shardOf(p.cluster)] = true
	}
	endpoints := make([]any, 0, len(shards))
	for _, shard := range slices.Sorted(maps.Keys(shards)) {
		endpoints = append(endpoints, map[string]any{"url": "http://kcp" + Endpoint(shard)})
	}
	t, p := w.tables[kcpGroup+"/apiexportendpointslices"], place{Platform, "", ipamGroup}
	slice := parse(t.objects[p])
	status := slice.Object["status"].(map[string]any)
	if had, _ := status["endpoints"].([]any); len(had) == len(endpoints) && slices.EqualFunc(had, endpoints, sameURL) {
		return
	}
	status["endpoints"] = endpoints
	w.commit(t, p, modified, slice)
}

func sameURL(a, b any) bool { return a.(map[string]any)["url"] == b.(map[string]any)["url"] }

// Endpoint returns the path under which a shard serves the tenants of the export.
func Endpoint(shard string) string { return "/services/apiexport/" + shard }

// BreakShard ends all watches of a shard, as a restart of its API server does.
func (w *World) BreakShard(shard string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.epochs[shard]++
	w.wakeAll()
}

// Reidentify gives the export another identity, as an administrator can. kcp stores the objects of tenants by
// identity. So the objects of the former identity are hidden, and come back with it. Their watches end without
// events.
func (w *World) Reidentify(identity string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if identity == w.identity {
		return
	}
	former, shown := map[string]map[place][]byte{}, w.hidden[identity]
	for _, plural := range owned {
		name := ipamGroup + "/" + plural
		t := w.tables[name]
		former[name] = map[place][]byte{}
		for p, b := range t.objects {
			if p.cluster != Platform {
				former[name][p] = b
				delete(t.objects, p)
			}
		}
		maps.Copy(t.objects, shown[name])
		t.log, t.begin = nil, w.revision
	}
	w.hidden[w.identity] = former
	w.identity = identity
	t, p := w.tables[kcpGroup+"/apiexports"], place{Platform, "", ipamGroup}
	export := parse(t.objects[p])
	export.Object["status"] = map[string]any{"identityHash": identity}
	w.commit(t, p, modified, export)
	w.rebind()
	w.breakAll()
}

// rebind writes the identity of the export into the bindings that serve. mu is held.
func (w *World) rebind() {
	t := w.tables[kcpGroup+"/apibindings"]
	for _, p := range t.places(t.objects, scope{}) {
		if o := parse(t.objects[p]); isBound(o) {
			o.Object["status"] = parse([]byte(w.boundStatus())).Object
			w.commit(t, p, modified, o)
		}
	}
}

// breakAll ends all watches. mu is held.
func (w *World) breakAll() {
	for _, cluster := range w.paths {
		w.epochs[w.shardOf(cluster)]++
	}
	w.wakeAll()
}

// wakeAll wakes all watches. mu is held.
func (w *World) wakeAll() {
	for _, t := range w.tables {
		t.wake()
	}
}
