package allocator

import "github.com/kcp-ipam/ipam/allocator/internal/store"

// Reader reads a ledger without an Allocator. It knows the keys as the store does, which nothing else reads.
type Reader = store.Reader
