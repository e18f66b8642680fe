package embedetcd

import (
	"fmt"

	"go.etcd.io/etcd/etcdutl/v3/snapshot"
	"go.uber.org/zap"
)

// Restore makes the data directory of a Server from a file with the snapshot of an etcd. The directory must be missing
// or empty. Restore fails if the snapshot's checksum does not fit, or if there is none, as in a copy of a database
// file.
func Restore(file, dir string) error {
	err := snapshot.NewV3(zap.NewNop()).Restore(snapshot.RestoreConfig{
		SnapshotPath: file, OutputDataDir: dir, Name: name, PeerURLs: []string{nowhere.String()},
		InitialCluster: name + "=" + nowhere.String(), InitialClusterToken: "etcd-cluster",
	})
	if err != nil {
		return fmt.Errorf("restore %s into %s: %w", file, dir, err)
	}
	return nil
}
