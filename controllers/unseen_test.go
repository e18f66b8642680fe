package controllers

import (
	"strings"
	"testing"

	"github.com/go-logr/logr/funcr"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/kcp-ipam/ipam/allocator/ledger"
	"github.com/kcp-ipam/ipam/controllers/internal/directory"
)

// pathOfMany knows the path of one workspace.
type pathOfMany struct{}

func (pathOfMany) Workspace(c ledger.ClusterName) directory.Workspace {
	if c == "many" {
		return directory.Workspace{Cluster: c, Path: "root:many"}
	}
	return directory.Workspace{Cluster: c}
}

// If many CREATEs were answered and their claims are not there, at two looks in a row, the log names the workspaces
// with the most of them. Many at one look may be claims that are being created.
func TestUnseen_LogsTheWorkspacesWithTheMost(t *testing.T) {
	var lines []string
	ctx := log.IntoContext(t.Context(), funcr.New(func(_, args string) { lines = append(lines, args) }, funcr.Options{}))
	var counts map[ledger.ClusterName]int
	u := &unseen{count: func() map[ledger.ClusterName]int { return counts }, names: pathOfMany{}, clock: clock.RealClock{}}
	for _, step := range []struct {
		counts map[ledger.ClusterName]int
		logs   bool
	}{
		{map[ledger.ClusterName]int{"few": 3}, false},
		{map[ledger.ClusterName]int{"few": 3, "many": 60}, false},
		{map[ledger.ClusterName]int{"few": 3, "many": 60}, true},
		{map[ledger.ClusterName]int{"few": 3}, false},
		{map[ledger.ClusterName]int{"few": 3, "many": 60}, false},
	} {
		counts, lines = step.counts, nil
		u.look(ctx)
		if got := len(lines) == 1; got != step.logs {
			t.Errorf("with %v it has logged %q; want a line: %t", step.counts, lines, step.logs)
		}
		if step.logs && !strings.Contains(lines[0], `"unseen"=63 "workspaces"="root:many: 60, few: 3"`) {
			t.Errorf("it has logged %s; want the workspaces, the most first", lines[0])
		}
	}
}
