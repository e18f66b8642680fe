package door

import (
	"bytes"
	"context"
	"errors"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kcp-ipam/ipam/allocator/ledger"
	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/test/must"
)

// pair is a standby and the leader that it asks.
type pair struct {
	*scene         // the standby
	leader  *scene // its field asked receives the questions to the leader
	at      atomic.Pointer[string]
	elects  func() // makes the standby the leader
	deletes        // of the leader
}

// never returns an Answerer that fails the test if it is asked.
func never(t *testing.T) Answerer {
	return answererFunc(func(context.Context, Request) (Answer, error) {
		t.Error("a replica that does not lead decides, want it to forward")
		return Answer{}, errors.New("asked")
	})
}

// newPair opens a standby and its leader, each with the keys of the Secret that its client reads.
func newPair(t *testing.T, own, leaders client.Client, standby, leader Answerer, by ...deletes) *pair {
	t.Helper()
	p := &pair{deletes: append(by, deletes{})[0]}
	asked, ring := make(chan Request, 1000), newRing(t, leaders)
	leads := newServer(nil, "", ring.token)
	Door{leads}.Lead(decider{answererFunc(func(ctx context.Context, req Request) (Answer, error) {
		asked <- req
		return leader.Answer(ctx, req)
	}), p.deletes})
	p.leader = serve(t, ring, leads)
	p.leader.asked = asked
	ring = newRing(t, own)
	opts := Options{Leader: func(context.Context) (string, error) { return *p.at.Load(), nil }, Endpoint: Endpoint{URL: "https://127.0.0.1"}}
	server := newServer(newPeer(opts, ring.token, ring.Bundle), "", ring.token)
	p.elects = func() { Door{server}.Lead(decider{standby, deletes{}}) }
	p.scene = serve(t, ring, server)
	p.at.Store(new(p.leader.address()))
	return p
}

// answersOf opens a pair whose leader gives this answer to every CREATE.
func answersOf(t *testing.T, answer Answer, err error) *pair {
	t.Helper()
	shared := newFake()
	return newPair(t, shared, shared, never(t), answererFunc(func(context.Context, Request) (Answer, error) { return answer, err }))
}

func (s *scene) address() string { return strings.TrimPrefix(s.base, "https://") }

// A standby asks the leader about a CREATE, and gives the answer of the leader.
func TestPeer_GivesTheAnswerOfTheLeader(t *testing.T) {
	p := answersOf(t, boundAnswer, nil)
	before := counted()
	req := creating(`{"metadata":{"name":"a","annotations":{"kcp.io/cluster":"c1"}},"spec":{"className":"web","prefixLength":28}}`)
	req.DryRun = new(true)
	got := patched(t, string(req.Object.Raw), p.review(p.answerPath(), req))
	if !strings.Contains(got, `"10.0.0.0/28"`) {
		t.Errorf("the claim is stored as %s, want it with its block", got)
	}
	claim := &ipamv1alpha1.IPClaim{Spec: ipamv1alpha1.IPClaimSpec{ClassName: "web", PrefixLength: 28}}
	claim.Name, claim.Namespace, claim.Annotations = "a", "default", map[string]string{"kcp.io/cluster": "c1"}
	if diff := cmp.Diff(Request{Cluster: "c1", Claim: claim, DryRun: true}, <-p.leader.asked); diff != "" {
		t.Errorf("the leader is asked (-want +got):\n%s", diff)
	}
	if got := counted()[resultBound] - before[resultBound]; got != 1 {
		t.Errorf("the CREATE is counted %v times, want once", got)
	}
	for range 20 {
		p.created(anyClaim)
	}
	if conns := p.leader.accepted.Load(); conns != 1 {
		t.Errorf("21 CREATEs one after the other were forwarded by %d connections, want 1", conns)
	}
}

// If the leader refuses a CREATE, the standby refuses it.
func TestPeer_RefusesIfTheLeaderRefuses(t *testing.T) {
	p := answersOf(t, Answer{Refuse: true}, nil)
	if resp := p.review(p.answerPath(), creating(anyClaim)); resp.Allowed || resp.Result.Code != http.StatusServiceUnavailable {
		t.Errorf("the response is %+v, want the refusal of the leader", resp)
	}
}

func TestPeer_ConnectsByItsDialOption(t *testing.T) {
	shared := newFake()
	answers := answererFunc(func(context.Context, Request) (Answer, error) { return boundAnswer, nil })
	p, ring := newPair(t, shared, shared, never(t), answers), newRing(t, shared)
	const leader = "leader.test:9443"
	peer := newPeer(Options{
		Leader: func(context.Context) (string, error) { return leader, nil }, Endpoint: Endpoint{URL: "https://127.0.0.1"},
		Dial: func(ctx context.Context, network, address string) (net.Conn, error) {
			if address != leader {
				t.Errorf("it dials %s, want %s", address, leader)
			}
			return (&net.Dialer{}).DialContext(ctx, network, p.leader.address())
		},
	}, ring.token, ring.Bundle)
	got := must.Get(peer.Answer(t.Context(), Request{Cluster: "c1", Claim: &ipamv1alpha1.IPClaim{}}))(t)
	if diff := cmp.Diff(boundAnswer, got); diff != "" {
		t.Errorf("answer (-want +got):\n%s", diff)
	}
}

// A replica that has become the leader decides by itself.
func TestPeer_DecidesByItselfOnceItLeads(t *testing.T) {
	shared := newFake()
	p := newPair(t, shared, shared, answererFunc(func(context.Context, Request) (Answer, error) { return boundAnswer, nil }), never(t))
	p.elects()
	if got := p.created(anyClaim); !strings.Contains(got, `"10.0.0.0/28"`) {
		t.Errorf("the claim is stored as %s, want it with its block", got)
	}
	if code, body := p.post(p.decidePath(), "application/json", []byte(`{"cluster":"c1","claim":{"metadata":{"name":"a"}}}`)); code != http.StatusOK {
		t.Errorf("another replica that asks gets %d %s, want 200", code, body)
	}
}

// If the leader gives no answer, a claim is stored without an answer, and without the status that the client has sent.
// If the claim says Refuse, it is refused. No other replica decides, and no request is forwarded twice.
func TestPeer_LeavesClaimsUnansweredWithoutTheLeader(t *testing.T) {
	const (
		forged  = `{"metadata":{"name":"a","annotations":{"kcp.io/cluster":"c1"}},"spec":{},"status":{"phase":"Bound","allocatedCIDR":"192.0.2.0/28"}}`
		refuses = `{"metadata":{"name":"a","annotations":{"kcp.io/cluster":"c1"}},"spec":{"unmetPolicy":"Refuse"}}`
	)
	shared := newFake()
	silent := func(t *testing.T) string { // accepts, and says nothing
		listener := must.Get((&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0"))(t)
		t.Cleanup(func() { listener.Close() })
		return listener.Addr().String()
	}
	at := func(address func(*testing.T, *pair) string) func(*testing.T) *pair {
		return func(t *testing.T) *pair {
			p := answersOf(t, boundAnswer, nil)
			p.at.Store(new(address(t, p)))
			return p
		}
	}
	for name, prepare := range map[string]func(*testing.T) *pair{
		"it is not known":     at(func(*testing.T, *pair) string { return "" }),
		"its address is none": at(func(*testing.T, *pair) string { return "%zz" }),
		"it is gone":          at(func(*testing.T, *pair) string { return "127.0.0.1:1" }),
		"its node hangs":      at(func(t *testing.T, _ *pair) string { return silent(t) }),
		// A review that is forwarded is not forwarded again.
		"the address is that of a standby": at(func(_ *testing.T, p *pair) string { return p.address() }),
		"it is slow": func(t *testing.T) *pair {
			return newPair(t, shared, shared, never(t), answererFunc(func(ctx context.Context, _ Request) (Answer, error) {
				<-ctx.Done() // which both replicas have by their own clocks
				return Answer{}, ctx.Err()
			}))
		},
		"it cannot tell": func(t *testing.T) *pair { return answersOf(t, Answer{}, errors.New("away")) },
		"it panics": func(t *testing.T) *pair {
			return newPair(t, shared, shared, never(t), answererFunc(func(context.Context, Request) (Answer, error) { panic("at the leader") }))
		},
		"it has another token": func(t *testing.T) *pair {
			newRing(t, shared)
			secret, leaders := &corev1.Secret{}, newFake()
			must.Do(t, shared.Get(t.Context(), secretKey, secret))
			secret.ResourceVersion, secret.Data[entryToken] = "", bytes.Repeat([]byte("x"), minToken)
			must.Do(t, leaders.Create(t.Context(), secret))
			return newPair(t, shared, leaders, never(t), never(t))
		},
		"it has the certificate of another CA": func(t *testing.T) *pair { return newPair(t, shared, newFake(), never(t), never(t)) },
	} {
		t.Run(name, func(t *testing.T) {
			p := prepare(t)
			before := counted()[resultUnanswered]
			sameJSON(t, p.created(forged), strings.Split(forged, `,"status"`)[0]+"}")
			if resp := p.review(p.answerPath(), creating(refuses)); resp.Allowed || resp.Result.Code != http.StatusServiceUnavailable {
				t.Errorf("a claim that says Refuse gets %+v, want a refusal by 503", resp)
			}
			if got := counted()[resultUnanswered] - before; got != 2 {
				t.Errorf("%v CREATEs are counted as unanswered, want 2", got)
			}
		})
	}
}

// The path between replicas, too, needs the token, and reads no more bytes than a review may have.
func TestDecide_RejectsHostileRequests(t *testing.T) {
	p := answersOf(t, boundAnswer, nil)
	sane := []byte(`{"cluster":"c1","claim":{"metadata":{"name":"a","namespace":"default"}}}`)
	for name, tt := range map[string]struct {
		at   *scene
		path string
		body []byte
		want int
	}{
		"sane":            {p.leader, p.decidePath(), sane, http.StatusOK},
		"no token":        {p.leader, "/decide", sane, http.StatusNotFound},
		"another token":   {p.leader, "/" + strings.Repeat("a", len(p.token)) + "/decide", sane, http.StatusNotFound},
		"a huge body":     {p.leader, p.decidePath(), append(sane, bytes.Repeat([]byte(" "), maxReview)...), http.StatusRequestEntityTooLarge},
		"no JSON":         {p.leader, p.decidePath(), []byte("<xml/>"), http.StatusBadRequest},
		"no claim":        {p.leader, p.decidePath(), []byte(`{"cluster":"c1"}`), http.StatusBadRequest},
		"no cluster":      {p.leader, p.decidePath(), []byte(`{"claim":{"metadata":{"name":"a"}}}`), http.StatusBadRequest},
		"a standby asked": {p.scene, p.decidePath(), sane, http.StatusMisdirectedRequest},
	} {
		if got, body := tt.at.post(tt.path, "application/json", tt.body); got != tt.want || bytes.Contains(body, []byte(p.token)) {
			t.Errorf("%s: the response is %d %.200s, want %d and no token", name, got, body, tt.want)
		}
	}
}

// A standby asks the leader about DELETEs, too, and gives the answer of the leader. It decides none by itself.
func TestPeer_AsksTheLeaderAboutDELETEs(t *testing.T) {
	const (
		pool   = `{"metadata":{"name":"lab","uid":"u1","annotations":{"kcp.io/cluster":"t1"}}}`
		record = `{"metadata":{"name":"r","namespace":"n","uid":"u2","annotations":{"kcp.io/cluster":"t1"}}}`
		claim  = `{"metadata":{"name":"net","namespace":"n","uid":"u3","annotations":{"kcp.io/cluster":"t1"}},"spec":{"target":"ScopeRange"}}`
		made   = `{"metadata":{"name":"net","uid":"u4","annotations":{"kcp.io/cluster":"t1"}},"spec":{"classRef":{"name":"vpc"}}}`
		class  = `{"metadata":{"name":"vpc","annotations":{"kcp.io/cluster":"p1"}}}`
	)
	away := errors.New("away")
	for name, tt := range map[string]struct {
		path, resource, object string
		by                     deletes
		code                   int32 // of the response; 0: it is allowed
		says                   string
	}{
		"pool": {"/drain", "ippools", pool, deletes{drained: func(pool Pool) {
			if want := (Pool{"t1", "lab", "u1"}); pool != want {
				t.Errorf("the leader is asked about %v, want %v", pool, want)
			}
		}}, 0, ""},
		"record that stays": {"/release", "ipallocations", record, deletes{released: func(in ledger.ClusterName, r *ipamv1alpha1.IPAllocation) (bool, error) {
			if in != "t1" || r.UID != "u2" {
				t.Errorf("the leader is asked about %s in %s, want u2 in t1", r.UID, in)
			}
			return false, nil
		}}, 0, ""},
		"record that is gone": {"/release", "ipallocations", record, deletes{released: func(ledger.ClusterName, *ipamv1alpha1.IPAllocation) (bool, error) {
			return true, nil
		}}, http.StatusNotFound, ""},
		"record that nobody can tell of": {"/release", "ipallocations", record, deletes{released: func(ledger.ClusterName, *ipamv1alpha1.IPAllocation) (bool, error) {
			return false, away
		}}, http.StatusServiceUnavailable, ""},
		"range that is empty": {"/close", "ipclaims", claim, deletes{closed: func(in ledger.ClusterName, c *ipamv1alpha1.IPClaim, _ bool) (string, error) {
			if in != "t1" || c.UID != "u3" {
				t.Errorf("the leader is asked about %s in %s, want u3 in t1", c.UID, in)
			}
			return "", nil
		}}, 0, ""},
		"range with a claim": {"/close", "ipclaims", claim, deletes{closed: func(ledger.ClusterName, *ipamv1alpha1.IPClaim, bool) (string, error) {
			return "claim a", nil
		}}, http.StatusConflict, "claim a"},
		"range that nobody can tell of": {"/close", "ipclaims", claim, deletes{closed: func(ledger.ClusterName, *ipamv1alpha1.IPClaim, bool) (string, error) {
			return "perhaps a", away
		}}, http.StatusServiceUnavailable, "perhaps a"},
		"pool of a class in use": {"/retire", "ippools", made, deletes{retired: func(in ledger.ClusterName, p *ipamv1alpha1.IPPool, _ bool) (string, error) {
			if in != "t1" || p.UID != "u4" {
				t.Errorf("the leader is asked about %s in %s, want u4 in t1", p.UID, in)
			}
			return "in use", nil
		}}, http.StatusConflict, "in use"},
		"class in use": {"/retire-class", "ipclasses", class, deletes{classed: func(class string) (string, error) {
			return class + " is in use", nil
		}}, http.StatusConflict, "vpc is in use"},
		"class that nobody can tell of": {"/retire-class", "ipclasses", class, deletes{classed: func(string) (string, error) {
			return "", away
		}}, http.StatusServiceUnavailable, "nobody can tell"},
	} {
		t.Run(name, func(t *testing.T) {
			shared := newFake()
			p := newPair(t, shared, shared, never(t), never(t), tt.by)
			resp := p.review("/"+p.token+tt.path, &admissionv1.AdmissionRequest{
				UID: "4711", Resource: metav1.GroupVersionResource(ipamv1alpha1.GroupVersion.WithResource(tt.resource)),
				Operation: admissionv1.Delete, OldObject: runtime.RawExtension{Raw: []byte(tt.object)},
			})
			switch {
			case tt.code == 0 && !resp.Allowed:
				t.Errorf("the DELETE is refused: %+v", resp.Result)
			case tt.code != 0 && (resp.Allowed || resp.Result.Code != tt.code || !strings.Contains(resp.Result.Message, tt.says)):
				t.Errorf("the response is %+v, want %d with %q", resp.Result, tt.code, tt.says)
			}
		})
	}
}

// If the leader does not answer, the standby cannot decide the DELETE of a range claim, an IPAllocation, a class, or a
// pool that a class has made. The DELETE of another pool does not wait.
func TestPeer_LeavesDELETEsUndecidedWithoutTheLeader(t *testing.T) {
	peer := newPeer(Options{Leader: func(context.Context) (string, error) { return "127.0.0.1:1", nil }, Endpoint: Endpoint{URL: "https://127.0.0.1"}},
		func() string { return "token" }, func() ([]byte, error) { return nil, nil })
	must.Fail(peer.Released(t.Context(), "t1", &ipamv1alpha1.IPAllocation{}))(t, errLeader)
	must.Fail(peer.CloseRange(t.Context(), "t1", &ipamv1alpha1.IPClaim{}, false))(t, errLeader)
	must.Fail(peer.RetirePool(t.Context(), "t1", &ipamv1alpha1.IPPool{}, false))(t, errLeader)
	must.Fail(peer.RetireClass(t.Context(), "vpc"))(t, errLeader)
	peer.Drained(t.Context(), Pool{Cluster: "t1", Name: "lab"})
}
