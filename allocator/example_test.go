package allocator_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net/netip"
	"os"

	"github.com/kcp-ipam/ipam/allocator"
	"github.com/kcp-ipam/ipam/allocator/embedetcd"
	"github.com/kcp-ipam/ipam/allocator/ledger"
)

// A ledger in a directory, a pool, and a claim that gets a block of it. With an
// etcd cluster, pass its client to Open instead.
func Example() {
	if err := run(context.Background()); err != nil {
		log.Fatalf("run: %v", err)
	}
	// Output:
	// 10.0.0.0/26
	// again: 10.0.0.0/26
	// no free /25: the largest free block is a /26
	// free: 128
}

func run(ctx context.Context) (err error) {
	dir, err := os.MkdirTemp("", "ledger")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	etcd, err := embedetcd.Start(ctx, embedetcd.Options{Dir: dir})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, etcd.Close()) }()

	alloc, err := allocator.Open(ctx, etcd.Client(), allocator.Options{MaxTxnOps: etcd.MaxTxnOps()})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, alloc.Close()) }()

	pool, err := alloc.Pools().Register(ctx, ledger.Pool{
		ID: "7d1c", Cluster: "root", Name: "office", CIDR: netip.MustParsePrefix("10.0.0.0/25"),
	})
	if err != nil {
		return err
	}
	request := ledger.Request{
		Pool: pool.ID, Length: 26,
		Holder: ledger.Holder{Claim: "claim-1", Cluster: "root", Namespace: "default", Name: "printers"},
	}
	block, err := alloc.Bind(ctx, request)
	if err != nil {
		return err
	}
	fmt.Println(block.Prefix)

	// The claim is the idempotency key: asking again gives the same block.
	if block, err = alloc.Bind(ctx, request); err != nil {
		return err
	}
	fmt.Println("again:", block.Prefix)

	// A refusal is an answer with a type.
	cameras := request
	cameras.Holder.Claim, cameras.Holder.Name, cameras.Length = "claim-2", "cameras", 25
	var exhausted *ledger.ExhaustedError
	if _, err := alloc.Bind(ctx, cameras); errors.As(err, &exhausted) {
		fmt.Println(err)
	}

	if err := alloc.Release(ctx, request.Holder.Claim); err != nil {
		return err
	}
	capacity, _ := alloc.Pools().Capacity(pool.ID)
	fmt.Println("free:", capacity.Available)
	return nil
}
