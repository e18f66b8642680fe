package main

import (
	"encoding/json"
	"strings"
	"syscall"
	"testing"

	"k8s.io/cli-runtime/pkg/genericiooptions"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/exit"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/output"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/session"
	"github.com/kcp-ipam/ipam/test/stage"
)

// The version is shown to programs as well.
func TestVersion_Output(t *testing.T) {
	for _, format := range []string{output.JSON, output.YAML} {
		s := stage.New(t)
		if code := s.Execute(t.Context(), newRoot(s.Session), []string{"version", "--client", "-o", format}); code != exit.OK {
			t.Fatalf("version -o %s ended with %d: %s", format, code, s.Said)
		}
		if !strings.Contains(s.Printed.String(), ipamv1alpha1.GroupVersion.String()) {
			t.Errorf("version -o %s prints %q; want the version of the API", format, s.Printed)
		}
		if format == output.JSON && !json.Valid(s.Printed.Bytes()) {
			t.Errorf("version -o json prints %q", s.Printed)
		}
	}
}

// fullDisk is a writer like /dev/full.
type fullDisk struct{}

func (fullDisk) Write([]byte) (int, error) { return 0, syscall.ENOSPC }

// What cannot be written is an error.
func TestFullDisk(t *testing.T) {
	for _, line := range []string{"--help", "version --client", "version --client -o json", "init --dry-run", "claim create a --dry-run", "claim create a --dry-run -o name"} {
		s := stage.New(t)
		streams, _, _, errs := genericiooptions.NewTestIOStreams()
		streams.Out = fullDisk{}
		s.Session = session.New(streams)
		if code := s.Execute(t.Context(), newRoot(s.Session), strings.Fields(line)); code != exit.Error || !strings.Contains(errs.String(), "no space left") {
			t.Errorf("kubectl ipam %s on a full disk ended with %d and said %q; want %d and what is wrong", line, code, errs, exit.Error)
		}
	}
}
