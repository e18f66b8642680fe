package verify

import (
	"errors"
	"testing"
)

// Without the APIExport no workspace can be read: that is a finding, and no block is found without its claim. Where
// nobody can tell whether the APIExport is there, all is compared as usual.
func TestVerify_WithoutTheExport(t *testing.T) {
	s := newScene(t)
	s.gone = errGone
	if kinds, findings := s.verify(); len(kinds) != 1 || kinds[0] != ExportGone || findings[0].Repair != "" {
		t.Errorf("found %+v, want %s alone, and no repair", findings, ExportGone)
	}
	s.gone = errors.New("forbidden")
	delete(s.claims, "a")
	if kinds, findings := s.verify(); len(kinds) != 1 || kinds[0] != BlockWithoutClaim {
		t.Errorf("found %+v, want %s alone", findings, BlockWithoutClaim)
	}
}
