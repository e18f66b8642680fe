package main

import (
	"encoding/json"
	"strings"
	"syscall"
	"testing"

	"k8s.io/cli-runtime/pkg/genericiooptions"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
)

// The version is shown to programs as well.
func TestVersion_Output(t *testing.T) {
	for _, format := range []string{outputJSON, outputYAML} {
		s := newStage(t)
		if code := s.execute(t.Context(), []string{"version", "--client", "-o", format}); code != exitOK {
			t.Fatalf("version -o %s ended with %d: %s", format, code, s.errs)
		}
		if !strings.Contains(s.out.String(), ipamv1alpha1.GroupVersion.String()) {
			t.Errorf("version -o %s prints %q; want the version of the API", format, s.out)
		}
		if format == outputJSON && !json.Valid(s.out.Bytes()) {
			t.Errorf("version -o json prints %q", s.out)
		}
	}
}

// fullDisk is a writer like /dev/full.
type fullDisk struct{}

func (fullDisk) Write([]byte) (int, error) { return 0, syscall.ENOSPC }

// What cannot be written is an error.
func TestFullDisk(t *testing.T) {
	for _, line := range []string{"--help", "version --client", "version --client -o json", "init --dry-run", "claim create a --dry-run", "claim create a --dry-run -o name"} {
		s := newStage(t)
		streams, _, _, errs := genericiooptions.NewTestIOStreams()
		streams.Out = fullDisk{}
		s.session = newSession(streams)
		if code := s.execute(t.Context(), strings.Fields(line)); code != exitError || !strings.Contains(errs.String(), "no space left") {
			t.Errorf("kubectl ipam %s on a full disk ended with %d and said %q; want %d and what is wrong", line, code, errs, exitError)
		}
	}
}

func TestParseOwner(t *testing.T) {
	for text, want := range map[string]ipamv1alpha1.OwnerRef{
		"Service/default/web":             {Kind: "Service", Namespace: "default", Name: "web"},
		"Node/n-1":                        {Kind: "Node", Name: "n-1"},
		"Machine.example.com/default/m-1": {APIGroup: "example.com", Kind: "Machine", Namespace: "default", Name: "m-1"},
	} {
		if got, err := parseOwner(text); err != nil || *got != want {
			t.Errorf("parseOwner(%q) = %+v, %v; want %+v", text, got, err, want)
		}
	}
	for _, text := range []string{"web", "Service/", "/web", "Service/a/b/c", "Service//web"} {
		if got, err := parseOwner(text); exitCode(err) != exitUsage {
			t.Errorf("parseOwner(%q) = %+v, %v; want wrong usage", text, got, err)
		}
	}
}
