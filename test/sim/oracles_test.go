package sim

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	admissionv1 "k8s.io/api/admission/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kcp-ipam/ipam/test/sim/simkcp"
)

// breach breaks a promise in a simulation.
type breach struct {
	oracle string
	steps  string
	before moment // when broken is called
	broken func(s *Simulation)
}

// stored changes a stored claim of tenant a past all admission.
func stored(name string, change func(o map[string]any)) func(*Simulation) {
	return func(s *Simulation) { s.world.Forge("ipclaims", tenants[name[:1]], "default", name, change) }
}

// status sets a field of the status.
func status(field string, value any) func(map[string]any) {
	return func(o map[string]any) { o["status"].(map[string]any)[field] = value }
}

// soon breaks the promise 20 s after the story began, beside its steps.
func soon(broken func(*Simulation)) func(*Simulation) {
	return func(s *Simulation) {
		go func() {
			time.Sleep(20 * time.Second)
			broken(s)
		}()
	}
}

// silent is a door that answers no request.
type silent struct{}

func (silent) Do(*http.Request) (*http.Response, error) { return nil, errRefused }

// consenting is a door that allows every request, and does nothing else.
type consenting struct{}

func (consenting) Do(r *http.Request) (*http.Response, error) {
	review := admissionv1.AdmissionReview{}
	if err := json.NewDecoder(r.Body).Decode(&review); err != nil {
		return nil, err
	}
	review.Response = &admissionv1.AdmissionResponse{UID: review.Request.UID, Allowed: true}
	body, err := json.Marshal(review)
	return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(bytes.NewReader(body))}, err
}

// drop deletes the objects of a workspace whose names begin with prefix. It acts as the controller, which may delete
// them.
func (s *Simulation) drop(plural, letter, prefix string) {
	for _, o := range s.world.All(plural) {
		if o.Cluster == tenants[letter] && strings.HasPrefix(o.GetName(), prefix) {
			user := simkcp.User{World: s.world, Cluster: o.Cluster, Name: "controller"}
			if err := user.Delete(context.Background(), plural, o.GetNamespace(), o.GetName()); err != nil {
				panic(err)
			}
		}
	}
}

// breaches break each promise once.
var breaches = []breach{
	{
		oracle: "OVERLAP", steps: "a0 +0s create a-c0 flat address=10.0.0.3\nb0 +9s create b-c0 flat address=10.0.0.3 wait\nb0 +30s delete b-c0",
		before: theStory, broken: soon(stored("b-c0", status("allocatedCIDR", "10.0.0.3/32"))),
	},
	{
		oracle: "LOST", steps: "a0 +0s create a-c0 flat length=32\na0 +30s delete a-c0",
		before: theStory, broken: soon(stored("a-c0", status("allocatedCIDR", "10.0.0.6/32"))),
	},
	{
		oracle: "COOLING", steps: "a0 +0s create a-c0 cool address=10.3.0.3\na0 +5s delete a-c0\nb0 +9s create b-c0 cool address=10.3.0.3 wait\nb0 +30s delete b-c0",
		before: theStory, broken: soon(stored("b-c0", func(o map[string]any) {
			status("allocatedCIDR", "10.3.0.3/32")(o)
			status("poolRef", map[string]any{"name": "cool", "projectRef": map[string]any{"name": simkcp.PlatformPath}})(o)
		})),
	},
	{
		oracle: "UNANSWERED", steps: "a0 +0s create a-c0 flat length=32",
		before: theStory, broken: func(s *Simulation) { s.world.Door = silent{} },
	},
	{
		oracle: "POOLREF", steps: "a0 +0s create a-c0 end network=n0",
		before: theStory, broken: func(s *Simulation) {
			s.world.Delay = func(what string) time.Duration {
				if what == "CREATE ipclaims" {
					s.drop("ippools", "a", "net")
				}
				return 0
			}
		},
	},
	{
		oracle: "RANGE", steps: "a0 +0s create a-r0 net range network=n0\na0 +30s delete a-r0",
		before: theStory, broken: soon(func(s *Simulation) { s.world.Door = consenting{} }),
	},
	{
		oracle: "LEAK", steps: "a0 +0s create a-c0 flat length=32\na0 +30s delete a-c0",
		before: theStory, broken: soon(stored("a-c0", status("className", "as b-c0 has it"))),
	},
	{
		oracle: "HELDUP", steps: "a0 +0s create a-c0 flat length=32\nfault +30s unbind a 1ms\na0 +200s let-go a-c0",
		before: theStory, broken: soon(stored("a-c0", func(o map[string]any) {
			o["metadata"].(map[string]any)["finalizers"] = []any{finalizer}
		})),
	},
	{
		oracle: "ORDER", steps: "a0 +0s create a-c0 flat length=32",
		before: theStory, broken: func(s *Simulation) {
			s.oracles.live["older"] = &told{key: "a/default/a-c1", class: "flat", length: 32, waits: time.Now().Add(-time.Minute)}
		},
	},
	{
		oracle: "ENDED", steps: "a0 +0s create a-c0 flat length=32\na0 +30s create a-c1 flat length=32",
		before: theStory, broken: soon(func(s *Simulation) {
			put := &pb.PutRequest{Key: []byte(ledgerPrefix + "/head"), Value: []byte(`{"v":1,"n":1,"by":"another"}`)}
			if _, err := s.etcd.Apply(put); err != nil {
				panic(err)
			}
		}),
	},
	{
		oracle: "ORDER", steps: "a0 +0s create a-c0 flat length=32",
		before: theStory, broken: func(s *Simulation) {
			for n := range 8 {
				wants := wanted{netip.AddrFrom4([4]byte{10, 0, 0, byte(n)}), time.Now().Add(-time.Minute), true}
				s.oracles.live[types.UID(rune('0'+n))] = &told{key: "a/default/a-c1", class: "flat", wants: wants}
			}
		},
	},
	{
		oracle: "LIMIT", steps: "a0 +0s create a-f0 few length=32\na0 +0s create a-f1 few length=32\na0 +0s create a-f2 few length=32 wait\na0 +30s delete a-f2",
		before: theStory, broken: soon(stored("a-f2", status("allocatedCIDR", "10.4.0.9/32"))),
	},
	{
		oracle: "INSIDE", steps: "a0 +0s create a-r0 net range network=n0\na0 +0s create a-c0 end network=n0\na0 +30s delete a-r0",
		before: theStory, broken: soon(func(s *Simulation) { s.world.Door = consenting{} }),
	},
	{
		oracle: "RETAINED", steps: "a0 +0s create a-c0 flat length=32 retain\na0 +5s delete a-c0",
		before: theRest, broken: func(s *Simulation) { s.drop("ipallocations", "a", "") },
	},
	{
		oracle: "BRAKE", steps: "a0 +0s create a-c0 flat length=32",
		before: theRest, broken: func(s *Simulation) { s.oracles.unknown = map[string][]string{"flat": make([]string, tolerated+1)} },
	},
	{
		oracle: "LEDGER", steps: "a0 +0s create a-c0 flat length=32",
		before: theRest, broken: func(s *Simulation) { s.dropKey("claims/") },
	},
	{
		oracle: "VERIFY", steps: "a0 +0s create a-c0 flat length=32",
		before: theRest, broken: func(s *Simulation) { s.dropKey("claims/") },
	},
	{
		oracle: "STARVED", steps: "a0 +0s create a-c0 flat address=10.0.0.3\nb0 +9s create b-c0 flat address=10.0.0.3 wait",
		before: theRest, broken: stored("b-c0", func(o map[string]any) {
			o["status"] = map[string]any{"phase": "Pending", "conditions": []any{map[string]any{
				"type": "Allocated", "status": "False", "reason": "Error", "message": "", "lastTransitionTime": "2000-01-01T00:00:00Z",
			}}}
		}),
	},
	{
		oracle: "STARVED", steps: "a0 +0s create a-c0 flat length=29\nb0 +9s create b-c0 flat length=31 wait",
		before: theRest, broken: func(s *Simulation) { s.dropKey("spaces/") },
	},
	{
		oracle: "STARVED", steps: "a0 +0s create a-f0 few length=31\na0 +9s create a-f1 few length=32 wait",
		before: theRest, broken: func(s *Simulation) { s.dropKey("spaces/") },
	},
	{
		oracle: "CAPACITY", steps: "a0 +0s create a-c0 flat length=32",
		before: theRest, broken: func(s *Simulation) {
			s.world.Forge("ippools", simkcp.Platform, "", "flat", status("capacity", map[string]any{"total": "8", "allocated": "2", "available": "6"}))
		},
	},
	{
		oracle: "GONE", steps: "a0 +0s create a-c0 flat length=32 retain\na0 +5s delete a-c0\na0 +5s delete-record a-c0\na0 +0s create a-c1 flat length=32 retain\na0 +5s delete a-c1",
		before: theRest, broken: func(s *Simulation) {
			for _, o := range s.world.All("ipallocations") {
				s.oracles.gone[keyOf(o.Cluster, o.GetNamespace(), o.GetName())] = time.Now()
			}
		},
	},
	{
		oracle: "SERVICE", steps: "a0 +0s create a-c0 flat length=32",
		before: theRest, broken: func(s *Simulation) { s.down() },
	},
	{
		oracle: "POOLREF", steps: "a0 +0s create a-c0 end network=n0",
		before: theRest, broken: func(s *Simulation) {
			s.down() // it would make the pool again
			s.world.Door = consenting{}
			s.drop("ippools", "a", "net")
		},
	},
	{
		oracle: "LEFT", steps: "a0 +0s create a-c0 flat length=32",
		before: theEnd, broken: func(s *Simulation) {
			put := &pb.PutRequest{Key: []byte(ledgerPrefix + "/claims/x"), Value: []byte(`{"v":1}`)}
			if _, err := s.etcd.Apply(put); err != nil {
				panic(err)
			}
		},
	},
}

// Each oracle finds a breach of its promise.
func TestOracles_FindBreaches(t *testing.T) {
	if *seed != 0 || *file != "" || *histories > 0 {
		return
	}
	for _, b := range breaches {
		t.Run(b.oracle, func(t *testing.T) {
			t.Parallel()
			story, err := Parse("profile calm\nseed 1\n" + b.steps)
			if err != nil {
				t.Fatalf("Parse: %v", err)
			}
			synctest.Test(t, func(t *testing.T) {
				s := newSimulation(story)
				s.rests = b.before != theEnd
				s.meddle = func(before moment) {
					if before == b.before {
						b.broken(s)
					}
				}
				report := s.run(t)
				if !slices.ContainsFunc(report.Findings, func(f Finding) bool { return f.Oracle == b.oracle }) {
					t.Errorf("findings are %v, want %s\n%s", report.Findings, b.oracle, strings.Join(report.Trace, "\n"))
				}
			})
		})
	}
}

// dropKey deletes the first key of the ledger that begins with prefix.
func (s *Simulation) dropKey(prefix string) {
	for _, key := range sorted(s.etcd.Dump()) {
		if !strings.HasPrefix(key, ledgerPrefix+"/"+prefix) || strings.HasSuffix(key, "/head") {
			continue
		}
		if _, err := s.etcd.Apply(&pb.DeleteRangeRequest{Key: []byte(key)}); err != nil {
			panic(fmt.Errorf("delete %s: %w", key, err))
		}
		return
	}
}
