package store

import (
	"errors"
	"net/netip"
	"reflect"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/kcp-ipam/ipam/allocator/ledger"
	"github.com/kcp-ipam/ipam/test/must"
	"go.etcd.io/etcd/api/v3/mvccpb"
)

// If a value can be read, it says the same when it is written again, whichever program wrote it.
func FuzzDecodeRecord(f *testing.F) {
	for _, value := range []string{
		`{"v":1,"pool":"p","claim":"c","cluster":"k","ns":"n","name":"web","policy":"Delete","state":"bound","at":"2026-01-02T03:04:05Z"}`,
		`{"v":1,"pool":"p","claim":"c","cluster":"k","name":"web","policy":"Retain","state":"retained","at":"2026-01-02T03:04:05Z","adopted":true}`,
		`{"v":1,"claim":"\ud800","at":"0001-01-01T00:00:00Z"}`, `{"v":2}`, `{"v":1}`, `{"v":1,"at":"9999-12-31T23:59:59.999999999-23:59"}`, `{`, `[]`, ``,
	} {
		f.Add([]byte(value))
	}
	p := netip.MustParsePrefix("10.0.0.0/28")
	read := func(value []byte) (Record, error) {
		return DecodeRecord("s", p, &mvccpb.KeyValue{Key: []byte("k"), Value: value, ModRevision: 7})
	}
	f.Fuzz(func(t *testing.T, value []byte) {
		r, err := read(value)
		if err != nil {
			return
		}
		again, err := read([]byte(r.Encode()))
		if err != nil {
			t.Fatalf("%q is written as %q: %v", value, r.Encode(), err)
		}
		if diff := cmp.Diff(r, again, readAs...); diff != "" {
			t.Errorf("%q (-read +read again):\n%s", value, diff)
		}
	})
}

// scanRecord finds what encoding/json finds, or nothing.
func FuzzScanRecord(f *testing.F) {
	for _, value := range []string{
		`{"v":1,"pool":"p","claim":"c","cluster":"k","ns":"n","name":"web","class":"x","policy":"Delete","state":"bound","slice":true,"at":"2026-01-02T03:04:05.678Z"}`,
		`{"v":1,"pool":"p","claim":"c","cluster":"k","name":"a<b","policy":"","state":"","at":"2026-01-02T03:04:05+01:00"}`,
		`{"v":1,"pool":"p","claim":"c","cluster":"k","ns":"","name":"ä\u0041\\","policy":"","state":"","slice":false,"at":"2026-01-02T03:04:05Z"}`,
		`{"v":1,"pool":"","claim":"","cluster":"","name":"","policy":"","state":"","at":"2026-1-2T3:4:5Z"}`,
		`{"v":1,"pool":"","claim":"","cluster":"","name":"","policy":"","state":"","at":"2026-01-02T03:04:05Z"}}`,
		`{"v":1,"pool":"","claim":"","cluster":"","name":"","policy":"","state":"","at":"2026-01-02T03:04:05Z","since":"2026-01-02T03:04:05Z","adopted":true}`,
		`{"v":1,"pool":"p","claim":"c","cluster":"k","name":"n","policy":"Delete","state":"bound","at":"2026-01-02T03:04:05Z"}`,
		`{"v":1,"pool":"p","claim":"c","cluster":"k","name":"n","policy":"Delete","state":"cooling","at":"2026-01-02T03:04:05Z","until":"2026-01-02T03:04:05Z"}`,
		`{"v":12,"pool":""}`, `{"v":1`, ``,
	} {
		f.Add([]byte(value))
	}
	f.Fuzz(func(t *testing.T, value []byte) {
		got, ok := scanRecord(value)
		if !ok {
			return
		}
		var want blockValue
		if err := decode("k", value, &want); err != nil {
			t.Fatalf("scanRecord(%q) = %+v; decode: %v", value, got, err)
		}
		if diff := cmp.Diff(want, blockValue{V: want.V, Holding: got}, append(readAs, cmp.AllowUnexported(blockValue{}))...); diff != "" {
			t.Errorf("scanRecord(%q) (-decoded +scanned):\n%s", value, diff)
		}
	})
}

// scanRecord can read the value that is written for an ordinary claim.
func TestScanRecord_ReadsWhatIsWritten(t *testing.T) {
	ordinary := Holding{
		Pool: "p", Claim: "c", Cluster: "tenant", Namespace: "default", Name: "c", Policy: ledger.Delete, State: ledger.Bound, BoundAt: Stamped(time.Now()),
	}
	slice := ordinary
	slice.Slice, slice.Class, slice.Namespace = true, "standard", ""
	adopted := ordinary
	adopted.Since, adopted.Adopted = adopted.BoundAt.Add(-time.Hour), true
	cooling := ordinary
	cooling.State, cooling.Until, cooling.Since = ledger.Cooling, Stamped(time.Now()), Stamped(time.Now())
	given := ordinary // back to a CREATE, while it cooled
	given.Until, given.Since = cooling.Until, cooling.Since
	for _, want := range []Holding{ordinary, slice, adopted, cooling, given} {
		got, ok := scanRecord([]byte(Record{Held: &want}.Encode()))
		if diff := cmp.Diff(want, got, readAs...); !ok || diff != "" {
			t.Errorf("scanRecord of %+v is ok = %t; want true (-written +scanned):\n%s", want, ok, diff)
		}
	}
}

// printRecord leaves out no field of a holding. The ledger would lose such a field.
func TestPrintRecord_WritesEachField(t *testing.T) {
	for field := range reflect.TypeFor[Holding]().Fields() {
		h := Holding{BoundAt: Stamped(time.UnixMilli(1767323045678))}
		switch value := reflect.ValueOf(&h).Elem().FieldByIndex(field.Index); value.Interface().(type) {
		case bool:
			value.SetBool(true)
		case time.Time:
			value.Set(reflect.ValueOf(Stamped(time.UnixMilli(1767323099999))))
		default:
			value.SetString("x")
		}
		if got, want := printRecord(h), encode(&blockValue{V: valueVersion, Holding: h}); got != want {
			t.Errorf("with %s a holding is written as %s; want %s", field.Name, got, want)
		}
	}
}

// printRecord writes what encoding/json writes.
func FuzzPrint(f *testing.F) {
	f.Add("p", "c", "", "", int64(0), int64(0), uint8(0))
	f.Add("<p>&", "\"c\\\n", "ä\xff", "\u2028\x7f", int64(1767323045678), int64(1), uint8(255))
	f.Fuzz(func(t *testing.T, pool, claim, namespace, class string, at, since int64, flags uint8) {
		h := Holding{
			Pool: ledger.PoolID(pool), Claim: ledger.ClaimID(claim), Cluster: ledger.ClusterName(class), Namespace: namespace, Name: claim, Class: class,
			Policy: ledger.ReclaimPolicy(pool), State: ledger.BlockState(namespace), Slice: flags&1 > 0, Adopted: flags&4 > 0,
			BoundAt: Stamped(time.UnixMilli(at % 1e14)),
		}
		if flags&8 > 0 {
			h.Until, h.Since = h.BoundAt.Add(time.Duration(since)), time.Unix(since%1e11, at%1e9).UTC()
		}
		prefix := netip.PrefixFrom(netip.AddrFrom4([4]byte{10, flags}), int(flags)/4)
		if flags&16 > 0 {
			prefix = netip.PrefixFrom(netip.AddrFrom16([16]byte{0x20, 1, 15: flags}), int(flags)/2)
		}
		r, head := Record{Held: &h}, headValue{V: valueVersion, Count: at}
		for _, written := range []struct{ got, want string }{
			{r.Encode(), encode(&blockValue{V: valueVersion, Holding: h})},
			{EncodeHead(at), encode(head)},
			{EncodeClaim(ledger.SpaceID(pool), prefix), encode(claimValue{V: valueVersion, Space: ledger.SpaceID(pool), Prefix: prefix})},
		} {
			if written.got != written.want {
				t.Errorf("a value is written as %s; want %s", written.got, written.want)
			}
		}
	})
}

// DecodeSole reads a block as EntryOf does, or reports false.
func TestDecodeSole_AgreesWithEntryOf(t *testing.T) {
	keys, place := NewStore(nil, "").Keys, netip.MustParsePrefix("10.0.0.16/28")
	held := Holding{Pool: "p", Claim: "c", Cluster: "tenant", Name: "c", Policy: ledger.Delete, State: ledger.Bound, BoundAt: Stamped(time.Now())}
	space := keys.Space("s")
	for _, tt := range []struct {
		name, key, value string
		want             bool
	}{
		{"a block", space.Block(place), Record{Held: &held}.Encode(), true},
		{"a head", space.Head(), EncodeHead(7), false},
		{"damage", space.Block(place), "{", false},
	} {
		kv := &mvccpb.KeyValue{Key: []byte(tt.key), Value: []byte(tt.value), ModRevision: 7}
		got, ok := DecodeSole(keys, kv)
		if ok != tt.want {
			t.Errorf("%s: DecodeSole is ok = %t; want %t", tt.name, ok, tt.want)
		}
		if e := EntryOf(keys, kv); ok {
			if diff := cmp.Diff(e.Block.Block(), got, readAs...); diff != "" {
				t.Errorf("%s (-EntryOf +DecodeSole):\n%s", tt.name, diff)
			}
		}
	}
}

func FuzzDecodePool(f *testing.F) {
	for _, value := range []string{
		`{"v":1,"space":"s","cidr":"10.0.0.0/8","excluded":["10.0.0.0/32"],"state":"open","cluster":"k","name":"p"}`,
		`{"v":1,"cidr":"2001:db8::/32","parent":"q","state":"draining"}`, `{"v":1,"cidr":""}`, `{"v":1,"cidr":"10.0.0.1/8"}`,
		`{"v":1,"cidr":"::ffff:10.0.0.0/104"}`, `{"v":1,"cidr":"fe80::%eth0/64"}`, `{"v":3}`, `null`,
	} {
		f.Add([]byte(value))
	}
	f.Fuzz(func(t *testing.T, value []byte) {
		p, err := DecodePool("k", "id", value)
		if err != nil {
			return
		}
		again, err := DecodePool("k", "id", []byte(EncodePool(p)))
		if err != nil {
			t.Fatalf("%q is written as %q: %v", value, EncodePool(p), err)
		}
		if diff := cmp.Diff(p, again, readAs...); diff != "" {
			t.Errorf("%q (-read +read again):\n%s", value, diff)
		}
	})
}

// readAs compares values that were read: a missing list equals an empty one.
var readAs = []cmp.Option{
	cmpopts.EquateEmpty(), cmp.AllowUnexported(Record{}, Holding{}), cmp.Comparer(func(a, b netip.Prefix) bool { return a == b }),
}

// Tenants name address domains. Each name makes keys of its own, and the key of one domain is never part of another's.
func FuzzDomainSpace(f *testing.F) {
	f.Add("k", "a/head", "a")
	f.Add("k", "a:b", "a%3Ab")
	f.Add("k", "..", "../blocks/010.000.000.000-08")
	f.Add("k", "ä\x00\n", "%C3%A4")
	keys := Keys("/ipam/v1")
	f.Fuzz(func(t *testing.T, cluster, domain, other string) {
		if strings.Contains(cluster, ":") || ledger.CheckID("cluster", cluster) != nil {
			return // the name of a logical cluster is kcp's to choose: letters and digits
		}
		space := ledger.DomainSpace(ledger.ClusterName(cluster), domain)
		if domain != other && space == ledger.DomainSpace(ledger.ClusterName(cluster), other) {
			t.Errorf("%q and %q are one domain, %q", domain, other, space)
		}
		must.Do(t, ledger.CheckID("space", space))
		want := Key{Kind: HeadKey, Space: space}
		if got, err := keys.Parse(keys.Space(space).Head()); err != nil || got != want {
			t.Errorf("the head of %q is read as %+v, %v", domain, got, err)
		}
	})
}

// If a key of etcd can be parsed, it is written in the same way again.
func FuzzParseKey(f *testing.F) {
	keys := Keys("/ipam/v1")
	for _, key := range []string{
		keys.Space("s").Head(), keys.Space("s").Block(netip.MustParsePrefix("10.0.0.0/8")), keys.Pool("p"), keys.Claim("c"), keys.ledger(),
		"/ipam/v1/spaces/", "/ipam/v1/spaces//head", "/ipam/v1/workspaces//roots", "",
	} {
		f.Add(key)
	}
	for _, prefix := range []string{
		"010.000.000.000-08", "10.0.0.0-8", "010.000.000.001-08", "010.000.000.000-8", "010.000.000.000-33",
		"2001:0db8:0000:0000:0000:0000:0000:0000-032", "2001:db8::-32", "256.000.000.000-08", "", "-", "::1%eth0-128",
	} {
		f.Add(keys.Space("s").Blocks() + prefix)
	}
	f.Fuzz(func(t *testing.T, key string) {
		is, err := keys.Parse(key)
		if err != nil {
			return
		}
		written := map[Kind]string{
			OtherKey: key, HeadKey: keys.Space(is.Space).Head(), PoolKey: keys.Pool(is.Pool),
		}
		if is.Kind == BlockKey {
			written[BlockKey] = keys.Space(is.Space).Block(is.Prefix)
		}
		if written[is.Kind] != key || is.Prefix.IsValid() && is.Prefix != is.Prefix.Masked() {
			t.Errorf("%q is read as %+v, which is %q", key, is, written[is.Kind])
		}
	})
}

// A tenant cannot make the record of its claim in the ledger large. With the longest names that admission lets through,
// the record has a few kilobytes. Labels, annotations and the rest of the claim are not in the record.
func TestPrintRecord_BoundsTheSizeOfABlock(t *testing.T) {
	longest := strings.Repeat("x", 253)
	widest := strings.Repeat("\U0010ffff", 256) // a class is named in characters, not in bytes
	h := Holding{
		Pool: ledger.PoolID(strings.Repeat("u", 36)), Class: widest, Policy: ledger.Retain, State: ledger.Bound, BoundAt: Stamped(time.Now()),
		Claim: ledger.ClaimID(strings.Repeat("u", 36)), Cluster: ledger.ClusterName(strings.Repeat("c", 16)),
		Namespace: strings.Repeat("n", 63), Name: longest,
	}
	value := Record{Held: &h}.Encode()
	if len(value) > 2048 {
		t.Errorf("a block takes %d bytes", len(value))
	}
	space := ledger.DomainSpace(h.Cluster, widest)
	key := Keys("/ipam/v1").Space(space).Block(netip.MustParsePrefix("2001:db8::/128"))
	if len(key) > 4096 || !utf8.ValidString(key) {
		t.Errorf("its key takes %d bytes", len(key))
	}
}

func TestDecodeRecord_RefusesANewerVersion(t *testing.T) {
	_, err := DecodeRecord("s", netip.MustParsePrefix("10.0.0.0/28"), &mvccpb.KeyValue{Key: []byte("k"), Value: []byte(`{"v":2,"state":"new"}`)})
	if version, ok := errors.AsType[*ledger.VersionError](err); !ok || version.Version != 2 {
		t.Errorf("got %v", err)
	}
}
