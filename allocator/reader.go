package allocator

import "github.com/kcp-ipam/ipam/allocator/internal/store"

// Reader reads a ledger without an Allocator. It reads keys and values by the code of the store, like an Allocator.
type Reader = store.Reader
