package simkcp

import (
	"maps"
	"strings"
)

// Copy is a backup of all objects.
type Copy struct {
	revision int64
	objects  map[string]map[place][]byte
}

// Backup copies all objects.
func (w *World) Backup() *Copy {
	w.mu.Lock()
	defer w.mu.Unlock()
	c := &Copy{w.revision, map[string]map[place][]byte{}}
	for name, t := range w.tables {
		c.objects[name] = maps.Clone(t.objects)
	}
	return c
}

// Restore replaces all objects by those of a backup, and ends all watches. Webhook configurations, Secrets and
// ConfigMaps stay as they are. With bump, the revision becomes higher than the present one, as after a restore of etcd
// with --bump-revision. Otherwise it becomes the revision of the backup.
func (w *World) Restore(c *Copy, bump bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if bump {
		w.revision += 1000
	} else {
		w.revision = c.revision
	}
	for name, t := range w.tables {
		if strings.HasPrefix(name, webhookGroup) || t.plural == "secrets" || t.plural == "configmaps" {
			continue
		}
		t.objects, t.log, t.begin, t.lost = maps.Clone(c.objects[name]), nil, w.revision, 0
	}
	w.breakAll()
}

// Compact forgets all changes, so that a watch that lags has to list again.
func (w *World) Compact() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, t := range w.tables {
		t.forget(w.revision)
	}
}

// Break ends all watches, as an API server that restarts does.
func (w *World) Break() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.breakAll()
}

// Forge changes a stored object past all admission, as a hostile tenant can for a moment. It reports false if the
// object does not exist.
func (w *World) Forge(plural, cluster, namespace, name string, change func(o map[string]any)) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	t := w.tables[ipamGroup+"/"+plural]
	p := place{cluster, namespace, name}
	b, ok := t.objects[p]
	if !ok {
		return false
	}
	o := parse(b)
	change(o.Object)
	w.commit(t, p, modified, o)
	return true
}
