package etcdtest

import (
	"context"
	"encoding/json"
	"net/netip"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// Record is a block as the ledger has it.
type Record struct {
	Key    string
	Space  string
	Prefix netip.Prefix
	Pool   string
	Claim  string
	Of     string    // the logical cluster of the holder
	Class  string    // empty: no class gave it
	State  string    // bound, retained, or cooling
	Until  time.Time // when the state ends by itself; zero: it does not
}

// CheckLedger reads a ledger key by key, sharing no code with what wrote it, and
// fails the test if one of these does not hold:
//
//	I1  no two blocks of a space overlap
//	I2  there is a block for each claim, and a claim for each block
//	I3  a claim has one block at most
//	and a block lies in its pool, whose space has a head,
//	a derived pool has a block with its CIDR, and the pool of an address space is registered
//
// It returns the blocks in the order of their keys.
func CheckLedger(t testing.TB, client *clientv3.Client, prefix string) []Record {
	t.Helper()
	resp, err := client.Get(context.Background(), prefix+"/", clientv3.WithPrefix())
	if err != nil {
		t.Fatalf("Get: %v", err)
	}
	l := rawLedger{t: t, values: map[string]map[string]any{}}
	for _, kv := range resp.Kvs {
		l.add(strings.TrimPrefix(string(kv.Key), prefix+"/"), kv.Value)
	}
	l.check()
	return l.blocks
}

type rawLedger struct {
	t      testing.TB
	values map[string]map[string]any
	blocks []Record
}

func (l *rawLedger) add(key string, value []byte) {
	l.t.Helper()
	var v map[string]any
	if err := json.Unmarshal(value, &v); err != nil {
		l.t.Fatalf("%s: %v", key, err)
	}
	l.values[key] = v
	parts := strings.Split(key, "/")
	if parts[0] != "spaces" || parts[2] != "blocks" {
		return
	}
	b := Record{
		Key: key, Space: parts[1], Prefix: readPrefix(l.t, parts[3]),
		Pool: v["pool"].(string), Claim: v["claim"].(string), State: v["state"].(string),
	}
	b.Of, _ = v["cluster"].(string)
	b.Class, _ = v["class"].(string)
	if until, timed := v["until"].(string); timed {
		var err error
		if b.Until, err = time.Parse(time.RFC3339, until); err != nil {
			l.t.Errorf("%s: %v", key, err)
		}
	}
	madeForACreate := len(b.Claim) == 36 && b.Claim[14] == '8' // its block may keep the end of a former cooldown
	if timed := !b.Until.IsZero(); b.State == "cooling" && !timed || b.State == "bound" && timed && !madeForACreate {
		l.t.Errorf("%s is %s until %v", key, b.State, b.Until)
	}
	l.blocks = append(l.blocks, b)
}

// readPrefix reads 010.000.000.000-08 or 2001:0db8:…-032.
func readPrefix(t testing.TB, s string) netip.Prefix {
	t.Helper()
	addr, length, _ := strings.Cut(s, "-")
	if !strings.Contains(addr, ":") {
		octets := strings.Split(addr, ".")
		for i := range octets {
			octets[i] = trimZeros(octets[i])
		}
		addr = strings.Join(octets, ".")
	}
	p, err := netip.ParsePrefix(addr + "/" + trimZeros(length))
	if err != nil {
		t.Fatalf("ParsePrefix: %v", err)
	}
	return p
}

func trimZeros(s string) string {
	if s = strings.TrimLeft(s, "0"); s == "" {
		return "0"
	}
	return s
}

func (l *rawLedger) check() {
	l.t.Helper()
	holds := map[string]string{}
	for i, b := range l.blocks {
		for j, other := range l.blocks {
			if i != j && b.Space == other.Space && b.Prefix.Overlaps(other.Prefix) {
				l.t.Errorf("I1: %s (%s) overlaps %s (%s)", b.Key, b.Claim, other.Key, other.Claim)
			}
		}
		l.checkClaim(b, b.Claim, holds)
		l.checkPool(b)
	}
	for key := range l.values {
		if id, ok := strings.CutPrefix(key, "claims/"); ok && holds[id] == "" {
			l.t.Errorf("I2: claim %s has no block", id)
		}
	}
	l.checkDerived()
}

// checkDerived checks the pools that the system has made.
func (l *rawLedger) checkDerived() {
	l.t.Helper()
	for key, pool := range l.values {
		id, ok := strings.CutPrefix(key, "pools/")
		if !ok {
			continue
		}
		if of := addressSpaceOf(id); of != "" && l.values["pools/"+of] == nil {
			l.t.Errorf("address space %s is of pool %s, which is not registered", id, of)
		}
		if pool["derived"] == nil {
			continue
		}
		if claim := l.values["claims/"+id]; claim == nil || claim["prefix"] != pool["cidr"] {
			l.t.Errorf("derived pool %s, %v, has the block %v", id, pool["cidr"], claim)
		}
	}
}

// addressSpaceOf returns the pool to which the ID of an address space belongs: <pool>.<64 hexadecimal digits>. For the
// ID of any other pool it returns an empty ID.
func addressSpaceOf(id string) string {
	if dot := strings.LastIndexByte(id, '.'); dot > 0 && len(id)-dot == 65 && id[:dot] != "derived" {
		return id[:dot]
	}
	return ""
}

func (l *rawLedger) checkClaim(b Record, id string, holds map[string]string) {
	l.t.Helper()
	claim := l.values["claims/"+id]
	if claim == nil || claim["space"] != b.Space || claim["prefix"] != b.Prefix.String() {
		l.t.Errorf("I2: %s is of claim %s, whose key says %v", b.Key, id, claim)
	}
	if other, twice := holds[id]; twice {
		l.t.Errorf("I3: claim %s has %s and %s", id, other, b.Key)
	}
	holds[id] = b.Key
}

func (l *rawLedger) checkPool(b Record) {
	l.t.Helper()
	pool := l.values["pools/"+b.Pool]
	if pool == nil {
		l.t.Errorf("%s is of pool %s, which is not registered", b.Key, b.Pool)
		return
	}
	space := pool["space"]
	if of := addressSpaceOf(b.Pool); of != "" {
		pool, space = l.values["pools/"+of], b.Pool
	}
	cidr := netip.MustParsePrefix(pool["cidr"].(string))
	if space != b.Space || !cidr.Contains(b.Prefix.Addr()) || b.Prefix.Bits() < cidr.Bits() {
		l.t.Errorf("%s does not lie in its pool %s, %v", b.Key, b.Pool, pool)
	}
	if l.values["spaces/"+b.Space+"/head"] == nil {
		l.t.Errorf("space %s has blocks and no head", b.Space)
	}
}
