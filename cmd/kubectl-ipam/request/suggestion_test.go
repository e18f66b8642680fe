package request

import "testing"

func TestNearest(t *testing.T) {
	known := []string{"external", "internal", "internal-v6", "public"}
	for typed, want := range map[string]string{
		"internl": "internal", "interanl": "internal", "int": "internal", "Internal": "internal", "extrenal": "external",
		"internal-v4": "internal-v6", "internal": "", "gold": "", "": "", "pub": "public",
	} {
		if got := nearest(typed, known); got != want {
			t.Errorf("nearest(%q) = %q, want %q", typed, got, want)
		}
	}
	if got := nearest("evil", []string{"evi\x1bl"}); got != "" {
		t.Errorf("nearest suggests %q; want no name with unprintable characters", got)
	}
}
