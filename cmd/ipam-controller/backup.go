package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/kcp-ipam/ipam/allocator/embedetcd"
)

func newBackupCommand() *cobra.Command {
	opts := defaults()
	cmd := &cobra.Command{
		Use:   "backup FILE",
		Short: "Write a snapshot of the ledger's etcd to a file",
		Long: `backup writes a snapshot of the whole etcd to a file, or to stdout if FILE is "-", while
controllers work. It asks the embedded etcd of a controller that runs with
--etcd-listen-client-url, or one member of an external etcd. The command restore reads
the file, as does etcd's own tool etcdutl.`,
		Example: `  ipam-controller backup ledger.db --etcd-listen-client-url unix:///run/ipam/etcd.sock`,
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return opts.within(cmd.Context(), func(ctx context.Context) error { return opts.backup(ctx, args[0], cmd.OutOrStdout()) })
		},
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	opts.addListenFlag(cmd.Flags())
	opts.addServersFlags(cmd.Flags())
	opts.addTimeoutFlag(cmd.Flags())
	cmd.MarkFlagsMutuallyExclusive("etcd-listen-client-url", "etcd-servers")
	cmd.MarkFlagsOneRequired("etcd-listen-client-url", "etcd-servers")
	return cmd
}

// backup writes a snapshot to a file, or to out.
func (o *options) backup(ctx context.Context, file string, out io.Writer) error {
	if o.etcdListen != "" {
		o.etcdServers = []string{o.etcdListen}
	}
	if len(o.etcdServers) == 0 {
		return errors.New("--etcd-listen-client-url and --etcd-servers are empty; give one of them the URL of an etcd")
	}
	o.etcdServers = o.etcdServers[:1] // a snapshot is that of one member
	store, err := dialEtcd(ctx, o)
	if err != nil {
		return err
	}
	if file == "-" {
		return errors.Join(snapshot(ctx, store.client, out), store.Close())
	}
	return errors.Join(snapshotFile(ctx, store.client, file), store.Close())
}

// snapshotFile copies a snapshot to a file. The name of a file that is not whole is never that of a backup.
func snapshotFile(ctx context.Context, client *clientv3.Client, file string) error {
	part, err := openPart(file)
	if err != nil {
		return err
	}
	err = errors.Join(snapshot(ctx, client, part), part.Sync(), part.Close())
	if err == nil {
		err = os.Rename(part.Name(), file)
	}
	if err != nil {
		return errors.Join(err, os.Remove(part.Name()))
	}
	return nil
}

// openPart makes a file for a backup, which gets its own name when it is whole. Another backup to that name may be under way.
func openPart(file string) (*os.File, error) {
	return os.CreateTemp(filepath.Dir(file), filepath.Base(file)+".*.part")
}

// snapshot copies a snapshot, which ends with its checksum.
func snapshot(ctx context.Context, client *clientv3.Client, to io.Writer) error {
	from, err := client.SnapshotWithVersion(ctx)
	if err != nil {
		return fmt.Errorf("take a snapshot of %v: %w", client.Endpoints(), err)
	}
	if _, err = io.Copy(to, from.Snapshot); err != nil {
		err = fmt.Errorf("take a snapshot of %v: %w", client.Endpoints(), err)
	}
	return errors.Join(err, from.Snapshot.Close())
}

func newRestoreCommand() *cobra.Command {
	opts := defaults()
	cmd := &cobra.Command{
		Use:   "restore FILE",
		Short: "Make the data directory of the embedded etcd from a snapshot",
		Long: `restore makes a data directory from a snapshot that backup, or etcdctl, has written.
The directory must be empty or missing: stop the controller and put the old one aside
first. When the controller starts, it adopts what is published and newer.

An external etcd is restored by etcdutl on each member.`,
		Example: `  ipam-controller restore ledger.db --etcd-data-dir ./ledger`,
		Args:    cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			return embedetcd.Restore(args[0], opts.etcdDataDir)
		},
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	opts.addDirFlag(cmd.Flags())
	return cmd
}
