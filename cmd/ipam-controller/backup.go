package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/kcp-ipam/ipam/allocator"
	"github.com/kcp-ipam/ipam/allocator/embedetcd"
	"github.com/kcp-ipam/ipam/controllers"
	"github.com/kcp-ipam/ipam/controllers/recover"
)

func newBackupCommand() *cobra.Command {
	opts := defaults()
	cmd := &cobra.Command{
		Use:   "backup FILE",
		Short: "Write a snapshot of the ledger's etcd to a file",
		Long: `backup writes a snapshot of the whole etcd to a file, or to stdout if FILE is "-", while
controllers work. It asks the controller whose embedded etcd is in --etcd-data-dir, or opens
that etcd if no controller runs; or it asks the embedded etcd of a controller that runs with
--etcd-listen-client-url, or one member of an external etcd. The command restore reads the
file, as does etcd's own tool etcdutl.`,
		Example: `  ipam-controller backup ledger.db --etcd-data-dir ./ledger`,
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			local := cmd.Flags().Changed("etcd-data-dir") || cmd.Flags().Changed("verify-socket")
			if !local && opts.etcdListen == "" && len(opts.etcdServers) == 0 {
				return errors.New("--etcd-listen-client-url and --etcd-servers are empty; give one of them the URL of an etcd")
			}
			return opts.within(cmd.Context(), func(ctx context.Context) error {
				return opts.backup(ctx, args[0], cmd.OutOrStdout())
			})
		},
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	opts.addListenFlag(cmd.Flags())
	opts.addDirFlag(cmd.Flags())
	opts.addSocketFlag(cmd.Flags())
	opts.addServersFlags(cmd.Flags())
	opts.addTimeoutFlag(cmd.Flags())
	cmd.MarkFlagsMutuallyExclusive("etcd-data-dir", "etcd-listen-client-url", "etcd-servers")
	cmd.MarkFlagsOneRequired("etcd-data-dir", "verify-socket", "etcd-listen-client-url", "etcd-servers")
	return cmd
}

// backup writes a snapshot to a file, or to out.
func (o *options) backup(ctx context.Context, file string, out io.Writer) error {
	take, done, err := o.source(ctx)
	if err != nil {
		return err
	}
	if file == "-" {
		return errors.Join(take(ctx, out), done())
	}
	return errors.Join(snapshotFile(ctx, take, file), done())
}

// taker writes a snapshot.
type taker func(ctx context.Context, to io.Writer) error

// source finds what takes the snapshot: the controller that runs on a directory or, without one, this process. done
// ends the work.
func (o *options) source(ctx context.Context) (take taker, done func() error, err error) {
	if o.etcdListen == "" && len(o.etcdServers) == 0 {
		stream, err := recover.Stream(ctx, o.socket(), controllers.SnapshotPath, nil)
		if err == nil {
			return func(_ context.Context, to io.Writer) error {
				_, err := io.Copy(to, stream)
				return err
			}, stream.Close, nil
		}
		if !errors.Is(err, recover.ErrNobody) {
			return nil, nil, err
		}
	}
	store, err := o.asked(ctx)
	if err != nil {
		return nil, nil, err
	}
	return store.snapshot, store.Close, nil
}

// asked opens the etcd that the flags name.
func (o *options) asked(ctx context.Context) (*store, error) {
	if o.etcdListen != "" {
		o.etcdServers = []string{o.etcdListen}
	}
	if len(o.etcdServers) > 0 {
		o.etcdServers = o.etcdServers[:1] // a snapshot is taken from one member
	}
	return o.openPresent(ctx)
}

// snapshotFile writes a snapshot to a file. The file gets its name only when it is whole.
func snapshotFile(ctx context.Context, take taker, file string) error {
	part, err := openPart(file)
	if err != nil {
		return err
	}
	err = errors.Join(take(ctx, part), part.Sync(), part.Close())
	if err == nil {
		err = os.Rename(part.Name(), file)
	}
	if err != nil {
		return errors.Join(err, os.Remove(part.Name()))
	}
	return nil
}

// openPart makes a file for a backup that is being written. Its name is unique, since another backup to the same file
// may be under way.
func openPart(file string) (*os.File, error) {
	return os.CreateTemp(filepath.Dir(file), filepath.Base(file)+".*.part")
}

// snapshot copies a snapshot of the etcd, with the checksum at its end.
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
first. The ledger gets another ID, so that the controller adopts what is published and newer
before it binds anything.

An external etcd is restored by etcdutl on each member. Delete the key ledger under
--etcd-prefix afterwards: the controller gives the ledger another ID, too.`,
		Example: `  ipam-controller restore ledger.db --etcd-data-dir ./ledger`,
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return restore(cmd.Context(), args[0], opts)
		},
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	opts.addDirFlag(cmd.Flags())
	opts.addPrefixFlag(cmd.Flags())
	return cmd
}

// restore makes a data directory from a snapshot, and gives the ledger in it another ID.
func restore(ctx context.Context, file string, opts *options) (err error) {
	if err := embedetcd.Restore(file, opts.etcdDataDir); err != nil {
		return err
	}
	server, err := embedetcd.Start(ctx, embedetcd.Options{Dir: opts.etcdDataDir, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, server.Close()) }()
	return allocator.Renew(ctx, server.Client(), opts.etcdPrefix)
}
