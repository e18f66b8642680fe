package sim

import (
	"strings"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/kcp-ipam/ipam/test/sim/simetcd"
	"github.com/kcp-ipam/ipam/test/sim/simkcp"
)

// Weather says how bad the connections are. Numbers are requests in a thousand.
type Weather struct {
	EtcdLost int // requests to etcd that do not arrive
	EtcdMute int // requests to etcd whose answers do not arrive
	EtcdLate int // transactions that etcd applies after their client has given up
	APILost  int
	APIMute  int
	APILate  int // writes to kcp that it serves after their client has given up
	APIFail  int // requests to kcp that are answered by 500

	CreateFails int // CREATEs of claims that fail after admission
	CreateSlow  int // CREATEs of claims that are stored up to 58 s after admission

	Lag     time.Duration // the longest delay of a watch of kcp
	EtcdLag time.Duration // the longest delay of a watch of etcd
	Slow    time.Duration // the longest delay of a request, of its answer, and between admission and the store
}

// weathers are those that a story can name.
var weathers = map[string]Weather{
	"fair":         {},
	"etcd-lossy":   {EtcdLost: 30, EtcdMute: 30},
	"etcd-late":    {EtcdMute: 30, EtcdLate: 60},
	"kcp-late":     {APILate: 60},
	"kcp-lossy":    {APILost: 50, APIMute: 50, APIFail: 20},
	"lagging":      {Lag: 5 * time.Second, EtcdLag: time.Second},
	"late-creates": {CreateFails: 200, CreateSlow: 100},
	"slow":         {Slow: 300 * time.Millisecond},
	"stormy": {
		EtcdLost: 10, EtcdMute: 10, APILost: 10, APIMute: 30, APILate: 10, CreateFails: 50, CreateSlow: 20,
		Lag: time.Second, EtcdLag: 200 * time.Millisecond, Slow: 300 * time.Millisecond,
	},
}

// current returns the weather of this moment.
func (s *Simulation) current() Weather {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.weather
}

// change changes the weather.
func (s *Simulation) change(w Weather) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.weather = w
}

// chance returns true in n of a thousand cases.
func (s *Simulation) chance(n int) bool { return n > 0 && s.below(1000) < n }

// etcdFate draws the fate of a request to etcd.
func (s *Simulation) etcdFate(request any) simetcd.Fate {
	w := s.current()
	slow := max(w.Slow, time.Millisecond)
	f := simetcd.Fate{Before: 200*time.Microsecond + s.most(slow), After: s.most(slow)}
	_, writes := request.(*pb.TxnRequest)
	switch {
	case s.chance(w.EtcdLost):
		f.Lost, f.Hang = true, s.chance(500)
	case s.chance(w.EtcdMute):
		f.Mute, f.Hang = true, s.chance(500)
	case writes && s.chance(w.EtcdLate):
		f.Mute, f.Hang, f.Late = true, s.chance(500), s.most(8*time.Second)
	}
	return f
}

// kcpFate draws the fate of a request of the controller to kcp. Requests for its certificates and webhooks are
// spared.
func (s *Simulation) kcpFate(method, plural string) simkcp.Fate {
	w := s.current()
	f := simkcp.Fate{Before: 300*time.Microsecond + s.most(max(w.Slow, 2*time.Millisecond)), After: s.most(max(w.Slow, time.Millisecond))}
	switch {
	case plural == "secrets", plural == "configmaps", strings.HasSuffix(plural, "webhookconfigurations"):
	case s.chance(w.APILost):
		f.Lost = true
	case method != "GET" && s.chance(w.APIMute):
		f.Mute = true
	case method != "GET" && s.chance(w.APILate):
		f.Mute, f.Late = true, s.most(8*time.Second)
	case s.chance(w.APIFail):
		f.Fail = 500
	}
	return f
}

// delay draws how long a request takes between admission and the store. If it is negative, the request fails there.
func (s *Simulation) delay(what string) time.Duration {
	w := s.current()
	switch {
	case what != "CREATE ipclaims":
	case s.chance(w.CreateFails):
		return -1
	case s.chance(w.CreateSlow):
		return s.most(58 * time.Second)
	}
	return s.most(max(w.Slow, 2*time.Millisecond))
}
