package main

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/cli-runtime/pkg/genericiooptions"
)

var update = flag.Bool("update", false, "write the golden files again")

// noon is the time of every test.
var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// stage is a session whose streams are looked at.
type stage struct {
	*session
	out, errs *bytes.Buffer
}

func newStage(t *testing.T) stage {
	t.Helper()
	streams, _, out, errs := genericiooptions.NewTestIOStreams()
	nowhere := filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(nowhere, []byte("{apiVersion: v1, kind: Config}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("KUBECONFIG", nowhere)
	t.Setenv("COLUMNS", "")
	s := newSession(streams)
	s.now = func() time.Time { return noon }
	return stage{s, out, errs}
}

// golden fails the test unless something is what its file says.
func golden(t *testing.T, name, got string) {
	t.Helper()
	file := filepath.Join("testdata", name+".golden")
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s differs (-want +got); -update writes it again:\n%s", file, diff)
	}
}
