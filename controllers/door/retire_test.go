package door

import (
	"errors"
	"net/http"
	"testing"

	"github.com/kcp-ipam/ipam/allocator/ledger"
	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
)

// The DELETE of a class, and of a pool that a class has made, is refused with a Conflict while the class or pool is in
// use, and as unavailable if nobody can tell.
func TestRetire_RefusesWhileInUse(t *testing.T) {
	const (
		class = `{"metadata":{"name":"vpc","annotations":{"kcp.io/cluster":"p1"}},"spec":{"poolPer":["project"]}}`
		pool  = `{"metadata":{"name":"net","uid":"u1","annotations":{"kcp.io/cluster":"t1"}},"spec":{"classRef":{"name":"vpc"}}}`
	)
	for name, tt := range map[string]struct {
		used string
		err  error
		code int32 // 0: allowed
	}{
		"idle": {}, "in use": {used: "two claims are inside", code: http.StatusConflict},
		"not known": {err: errors.New("secret"), code: http.StatusServiceUnavailable},
	} {
		for _, dry := range []bool{false, true} {
			by := deletes{
				retired: func(in ledger.ClusterName, pool *ipamv1alpha1.IPPool, isDry bool) (string, error) {
					if in != "t1" || pool.Name != "net" || pool.Spec.ClassRef.Name != "vpc" || isDry != dry {
						t.Errorf("%s: it is asked for pool %s of %s, dry run %t", name, pool.Name, in, isDry)
					}
					return tt.used, tt.err
				},
				classed: func(class string) (string, error) {
					if class != "vpc" {
						t.Errorf("%s: it is asked for class %s", name, class)
					}
					return tt.used, tt.err
				},
			}
			for resource, asked := range map[string]struct{ path, object string }{"ippools": {"/retire", pool}, "ipclasses": {"/retire-class", class}} {
				resp := deleting(t, asked.path, resource, asked.object, dry, "", by)
				switch {
				case resp.Allowed != (tt.code == 0):
					t.Errorf("%s: the DELETE of %s is allowed: %t", name, resource, resp.Allowed)
				case resp.Allowed:
				case resp.Result.Code != tt.code || resp.Result.Reason != statusReasons[tt.code] || tt.used != "" && resp.Result.Message != tt.used:
					t.Errorf("%s: the DELETE of %s results in %+v, want %d", name, resource, resp.Result, tt.code)
				}
			}
		}
	}
}

// The webhooks are called only for classes that make pools, and for pools that classes have made, unless the system
// deletes them.
func TestRetire_IsCalledForClassesThatMakePoolsAndForTheirPools(t *testing.T) {
	for object, want := range map[string][2]bool{ // as a pool, as a class
		`spec: {cidr: 10.0.0.0/8}`:        {false, false},
		`spec: {classRef: {name: vpc}}`:   {true, false},
		`spec: {ipFamily: IPv6}`:          {false, false},
		`spec: {poolPer: []}`:             {false, false},
		`spec: {poolPer: [project, net]}`: {false, true},
	} {
		pool := called(t, registered.retirePool().MatchConditions, tenant, object, object)
		class := called(t, registered.retireClass().MatchConditions, tenant, object, object)
		if pool != want[0] || class != want[1] {
			t.Errorf("%s: called is %t as a pool and %t as a class, want %v", object, pool, class, want)
		}
		if called(t, registered.retirePool().MatchConditions, masters, object, object) || called(t, registered.retireClass().MatchConditions, controller, object, object) {
			t.Errorf("%s: called for the system", object)
		}
	}
}
