package config

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/test/must"
)

// The schemas of the server that a sample is for admit the sample.
func TestSamples_AreAdmitted(t *testing.T) {
	files, err := filepath.Glob(filepath.Join("samples", "*", "*.yaml"))
	if err != nil || len(files) == 0 {
		t.Fatalf("there are no samples: %v", err)
	}
	platform, tenant := platformDoors(t), tenantDoors(t)
	for _, file := range files {
		text := must.Get(os.ReadFile(file))(t)
		doors := tenant
		if !strings.HasPrefix(filepath.Base(file), "team-") {
			doors = platform
		}
		for manifest := range strings.SplitSeq(string(text), "\n---\n") {
			sample := object(t, manifest)
			kind, _ := sample["kind"].(string)
			d, ok := doors[kind]
			if !ok {
				t.Errorf("%s has an object of kind %q, which is not served there", file, kind)
				continue
			}
			if refused := d.refusals(sample, nil); len(refused) > 0 {
				t.Errorf("%s: %s is refused: %s", file, kind, strings.Join(refused, "; "))
			}
		}
	}
}

// A pool of the samples that hands out single addresses withholds the first and the last address of its network: ::
// and the broadcast address belong to no machine.
func TestSamples_WithholdTheEdgesOfSingleAddresses(t *testing.T) {
	single, pools := map[string]bool{}, map[string]ipamv1alpha1.IPPoolSpec{} // classes and pools by what claims may get of them
	for _, file := range must.Get(filepath.Glob(filepath.Join("samples", "*", "*.yaml")))(t) {
		for manifest := range strings.SplitSeq(string(must.Get(os.ReadFile(file))(t)), "\n---\n") {
			kind := metav1.TypeMeta{}
			must.Do(t, yaml.Unmarshal([]byte(manifest), &kind))
			switch kind.Kind {
			case "IPClass":
				class := ipamv1alpha1.IPClass{}
				must.Do(t, yaml.Unmarshal([]byte(manifest), &class))
				whole := map[ipamv1alpha1.IPFamily]int32{ipamv1alpha1.IPv4: 32, ipamv1alpha1.IPv6: 128}[class.Spec.IPFamily]
				lengths := class.Spec.AllowedPrefixLengths
				single["class "+class.Name] = class.Spec.DefaultPrefixLength == whole || lengths != nil && lengths.Max == whole
			case "IPPool":
				pool := ipamv1alpha1.IPPool{}
				must.Do(t, yaml.Unmarshal([]byte(manifest), &pool))
				pools[pool.Name] = pool.Spec
			case "IPClaim":
				claim := ipamv1alpha1.IPClaim{}
				must.Do(t, yaml.Unmarshal([]byte(manifest), &claim))
				if ref, length := claim.Spec.PoolRef, claim.Spec.PrefixLength; ref != nil && (length == 32 || length == 128 || claim.Spec.Address != "") {
					single["pool "+ref.Name] = true
				}
			}
		}
	}
	withheld := 0
	for name, spec := range pools {
		if !single["pool "+name] && !slices.ContainsFunc(spec.ClassNames, func(class string) bool { return single["class "+class] }) {
			continue
		}
		withheld++
		if r := spec.Reservations; r == nil || r.Leading < 1 || r.Trailing < 1 {
			t.Errorf("pool %s hands out single addresses, and its reservations are %v; want the first one and the last one", name, r)
		}
	}
	if withheld < 2 {
		t.Errorf("%d pools of the samples hand out single addresses; want some", withheld)
	}
}
