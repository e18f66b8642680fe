package space

import (
	"fmt"
	"net/netip"
	"testing"
	"time"

	"github.com/kcp-ipam/ipam/allocator/ledger"
)

// full makes a pool of 32 addresses, and binds each address. It returns a function that frees an address, and checks
// which claims are woken.
func full(t *testing.T) (s *Space, freed func(address string, woken ...ledger.ClaimID)) {
	t.Helper()
	s, told := spaceOf(netip.MustParsePrefix("10.0.0.0/27"))
	s.Lock()
	for i := range 32 {
		come(s, fmt.Sprintf("10.0.0.%d/32", i), block(ledger.ClaimID(fmt.Sprint("holder", i))))
	}
	s.Unlock()
	return s, func(address string, woken ...ledger.ClaimID) {
		t.Helper()
		s.Lock()
		leave(s, netip.MustParsePrefix(address+"/32"))
		s.Unlock()
		wantWoken(t, told, woken...)
	}
}

// waits makes a claim of a workspace wait for an address; empty: for any address. since is when the claim was made, in
// seconds.
func waits(s *Space, cluster ledger.ClusterName, claim ledger.ClaimID, since int64, address string) {
	r := asks(claim)
	r.Holder.Cluster, r.Since = cluster, time.Unix(since, 0)
	if address != "" {
		r.Exact = netip.MustParsePrefix(address + "/32")
	}
	s.Lock()
	s.Room.Wait(s.Pool("p"), r)
	s.Unlock()
}

// A freed block is held for the oldest claim that waits for exactly this block, however many older claims of the same
// workspace wait for any block.
func TestRoom_ServesAClaimForTheFreedBlockFirst(t *testing.T) {
	s, freed := full(t)
	for i := range 30 {
		waits(s, "w", ledger.ClaimID(fmt.Sprintf("old%02d", i)), int64(i), "")
	}
	waits(s, "w", "second", 101, "10.0.0.7")
	waits(s, "w", "first", 100, "10.0.0.7")
	freed("10.0.0.6", "old00")
	freed("10.0.0.7", "first")
}

// If one transaction frees several blocks, the claim for exactly one of them gets it, whichever block the transaction
// frees first.
func TestRoom_ServesAClaimForOneOfTheFreedBlocksFirst(t *testing.T) {
	s, told := spaceOf(netip.MustParsePrefix("10.0.0.0/30"))
	s.Lock()
	blocks := make([]netip.Prefix, 4)
	for i := range blocks {
		blocks[i] = netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 0, 0, byte(i)}), 32)
		come(s, blocks[i].String(), block(ledger.ClaimID(fmt.Sprint("holder", i))))
	}
	s.Unlock()
	for i := range int64(3) {
		waits(s, "w", ledger.ClaimID(fmt.Sprint("any", i)), i, "")
	}
	waits(s, "w", "exact", 10, "10.0.0.3")
	s.Lock()
	leave(s, blocks[2], blocks[3])
	s.Unlock()
	wantWoken(t, told, "exact", "any0")
}

// Workspaces take turns, whether their claims wait for the freed block or for any block.
func TestRoom_LetsWorkspacesTakeTurnsEvenForAFreedBlock(t *testing.T) {
	s, freed := full(t)
	for i := range int64(3) {
		waits(s, "older", ledger.ClaimID(fmt.Sprint("any", i)), i, "")
	}
	for i := range int64(3) {
		waits(s, "younger", ledger.ClaimID(fmt.Sprint("exact", i)), 10+i, fmt.Sprintf("10.0.0.%d", 5+i))
	}
	freed("10.0.0.5", "any0")
	freed("10.0.0.6", "exact1")
	freed("10.0.0.7", "any1")
	freed("10.0.0.8", "any2")
}

// When a workspace has its turn because of its oldest claim, its younger claim for the freed block is served instead.
func TestRoom_GivesTheTurnOfAWorkspaceToItsClaimForTheFreedBlock(t *testing.T) {
	s, freed := full(t)
	waits(s, "a", "any", 1, "")
	waits(s, "b", "other", 2, "")
	waits(s, "a", "exact", 3, "10.0.0.9")
	freed("10.0.0.9", "exact")
	freed("10.0.0.4", "other")
	freed("10.0.0.3", "any")
}

// Of the claims for exact addresses, only the 16 youngest come first. An older claim has its turn by age, as the claims
// for any address have.
func TestRoom_PrefersOnlyTheYoungestClaimsForAddresses(t *testing.T) {
	s, freed := full(t)
	waits(s, "w", "any0", 1, "")
	waits(s, "w", "any1", 2, "")
	for i := range int64(mostPreferred + 1) {
		waits(s, "w", ledger.ClaimID(fmt.Sprint("exact", i)), 10+i, fmt.Sprintf("10.0.0.%d", i))
	}
	freed("10.0.0.0", "any0")
	freed("10.0.0.1", "exact1")
	freed("10.0.0.2", "exact2")
}

// When a limit stops the claims of a workspace no longer, the claim for the freed block goes first, too.
func TestRoom_ServesAStoppedClaimForTheFreedBlockFirst(t *testing.T) {
	s, told, on := crowded(t, 30, func(r *ledger.Request, i int) {
		if i == 29 {
			r.Exact = netip.MustParsePrefix("10.0.0.3/32")
		}
	})
	s.Lock()
	leave(s, netip.MustParsePrefix("10.0.0.0/12"))
	other := block("other")
	other.Held.Cluster = "other"
	come(s, "10.0.0.0/31", other)
	come(s, "10.0.0.2/32", other)
	s.Unlock()
	release(s, on)
	wantWoken(t, told, "c000029")
}
