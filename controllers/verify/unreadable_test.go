package verify

import (
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kcp-ipam/ipam/controllers/internal/decode"
)

// unreadable marks an object as one that was not decoded whole.
func unreadable(obj client.Object) {
	annotations := obj.GetAnnotations()
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[decode.Mark] = "spec.x"
	obj.SetAnnotations(annotations)
}

// TestVerify_Unreadable: an object that cannot be read is a finding, and no sign that the block or the pool is nobody's.
func TestVerify_Unreadable(t *testing.T) {
	for name, change := range map[string]func(*scene) client.Object{
		"a claim":           func(s *scene) client.Object { return s.claims["a"] },
		"a record":          func(s *scene) client.Object { return s.records["a"] },
		"a retained record": func(s *scene) client.Object { return s.records["r"] },
		"a pool":            func(s *scene) client.Object { return s.pools["root"] },
		"a child pool":      func(s *scene) client.Object { return s.pools["child"] },
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene(t)
			odd := change(s)
			unreadable(odd)
			_, findings := s.verify()
			if len(findings) != 1 || findings[0].Kind != Unreadable || findings[0].Name != odd.GetName() || findings[0].Repair != "" {
				t.Errorf("found %+v, want %s as Unreadable, and nothing else", findings, odd.GetName())
			}
		})
	}
}
