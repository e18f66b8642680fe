package sim

import (
	"encoding/json"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/test/sim/simkcp"
)

// clear deletes everything as its owner would: claims and records first, and later the pools that are not derived.
func (s *Simulation) clear() {
	for round := range 60 {
		left := 0
		for _, plural := range []string{"ipclaims", "ipallocations", "ippools"} {
			for _, o := range s.world.All(plural) {
				left++
				if plural != "ippools" || round >= 8 && o.GetLabels()[ipamv1alpha1.LabelProvisionedBy] == "" {
					s.discard(plural, o)
				}
			}
		}
		if left == 0 {
			return
		}
		time.Sleep(20 * time.Second)
	}
}

// discard deletes an object.
func (s *Simulation) discard(plural string, o simkcp.Object) {
	user := simkcp.User{World: s.world, Cluster: o.Cluster, Name: "owner"}
	if plural == "ipclaims" && len(o.GetFinalizers()) > 0 {
		_ = user.Patch(plural, o.GetNamespace(), o.GetName(), `{"metadata":{"finalizers":null}}`)
	}
	ctx, cancel := patiently()
	defer cancel()
	if err := user.Delete(ctx, plural, o.GetNamespace(), o.GetName()); err != nil && !apierrors.IsNotFound(err) {
		s.note("DELETE %s %s: %v", plural, keyOf(o.Cluster, o.GetNamespace(), o.GetName()), err)
	}
}

// atEnd judges that nothing is left after everything was deleted.
func (s *Simulation) atEnd() {
	s.checkLedger()
	for _, plural := range []string{"ipclaims", "ipallocations", "ippools"} {
		for _, o := range s.world.All(plural) {
			status, err := json.Marshal(o.Object["status"])
			if err != nil {
				panic(err)
			}
			s.find("LEFT", "%s %s %s %s", plural, keyOf(o.Cluster, o.GetNamespace(), o.GetName()), simkcp.Brief(o.Unstructured), status)
		}
	}
	for key, value := range s.etcd.Dump() {
		key = strings.TrimPrefix(key, ledgerPrefix+"/")
		for _, kept := range []string{"spaces/", "pools/", "claims/", "slices/"} {
			if strings.HasPrefix(key, kept) {
				s.find("LEFT", "%s %s", key, value)
			}
		}
	}
}

// tolerated is how many blocks of unknown claims a sweep may free in a pool: ten, or a tenth of a larger pool than
// those here.
const tolerated = 10

// noteUnclaimed notes the bound blocks whose claims a restored kcp does not know.
func (o *oracles) noteUnclaimed() {
	known := map[string]bool{}
	for _, claim := range o.s.world.All("ipclaims") {
		known[string(claim.GetUID())] = true
	}
	found := map[string][]string{}
	for _, b := range o.s.checkLedger() {
		if b.State == "bound" && !known[b.Claim] {
			found[b.Pool] = append(found[b.Pool], b.Key)
		}
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.unknown = found
}

// judgeBrake judges that the controller frees few blocks of claims that are too new for the restored kcp to know
// them.
func (s *Simulation) judgeBrake() {
	now := s.etcd.Dump()
	for pool, keys := range s.oracles.unknown {
		freed := 0
		for _, key := range keys {
			if _, there := now[ledgerPrefix+"/"+key]; !there {
				freed++
			}
		}
		s.note("of pool %s, %d of %d blocks without a claim were freed", pool, freed, len(keys))
		if freed > tolerated {
			s.find("BRAKE", "of pool %s, %d of %d blocks were freed whose claims the restored kcp does not know", pool, freed, len(keys))
		}
	}
}
