package sim

import (
	"strings"
	"time"

	"github.com/kcp-ipam/ipam/test/sim/simetcd"
	"github.com/kcp-ipam/ipam/test/sim/simkcp"
)

// copies are the backups that a story has made.
type copies struct {
	kcp  *simkcp.Copy
	etcd *simetcd.Snapshot
	at   time.Time // when etcd was copied
}

func (p *player) setWeather(words []string) {
	w, ok := weathers[words[0]]
	if !ok {
		panic(usage(words))
	}
	p.note("the weather is %s", words[0])
	p.change(w)
}

func (p *player) kill(words []string) {
	if len(words) == 0 {
		p.note("the controller is killed")
		p.down()
		return
	}
	if victim := p.replica(words[0]); victim != nil {
		p.note("replica %d, the %s, is killed", victim.replica, words[0])
		p.end(victim, (*process).kill)
	}
}

func (p *player) start([]string) {
	p.note("the controller is started")
	p.up()
}

func (p *player) compact([]string) {
	p.note("etcd is compacted: %v", p.etcd.Compact(p.etcd.Revision()))
}

func (p *player) forget([]string) {
	p.note("kcp forgets its events")
	p.world.Compact()
}

func (p *player) breakWatches([]string) {
	p.note("kcp ends all watches")
	p.world.Break()
}

// bound reports whether a tenant's workspace is bound.
func (s *Simulation) bound(letter string) bool {
	for _, o := range s.world.All("apibindings") {
		if o.Cluster == tenants[letter] {
			return true
		}
	}
	return false
}

// unbind deletes a binding. A binding that does not go is a finding: no program may hold up a workspace.
func (p *player) unbind(words []string) {
	step, err := time.ParseDuration(words[1])
	if err != nil {
		panic(usage(words))
	}
	if !p.bound(words[0]) {
		return
	}
	p.note("workspace %s unbinds", words[0])
	defer p.oracles.empties(words[0] + "/")()
	if p.world.Unbind(tenants[words[0]], step) {
		p.note("workspace %s is unbound", words[0])
		return
	}
	p.oracles.heldUp(words[0])
}

func (p *player) bind(words []string) {
	if p.bound(words[0]) {
		return
	}
	p.world.Bind(tenants[words[0]], "root:"+words[0])
	p.note("workspace %s is bound", words[0])
}

func (p *player) copyKCP([]string) {
	p.copies.kcp = p.world.Backup()
	p.oracles.copies()
	p.note("kcp is copied")
}

// restoreKCP restores kcp from its copy. What tenants were told after the copy was made does not hold any more.
func (p *player) restoreKCP(words []string) {
	if p.copies.kcp == nil {
		return
	}
	p.oracles.restored()
	p.note("kcp is restored, %s", strings.Join(words, " "))
	p.world.Restore(p.copies.kcp, words[0] == "raised")
	p.oracles.noteUnclaimed()
}

func (p *player) copyEtcd([]string) {
	p.copies.etcd, p.copies.at = p.etcd.Snapshot(), time.Now()
	p.note("etcd is copied")
}

// restoreEtcd restores the copy of the ledger as operators do: nothing runs meanwhile, and the ledger gets another ID.
func (p *player) restoreEtcd([]string) {
	if p.copies.etcd == nil {
		return
	}
	p.note("etcd is restored")
	p.down()
	time.Sleep(time.Second)
	p.etcd.Restore(p.copies.etcd, 1000)
	p.etcd.Delete("/ipam/v1/ledger")
	p.oracles.restoredLedger(p.copies.at)
	p.up()
}
