package store

import (
	"net/netip"
	"strings"
	"time"

	"github.com/kcp-ipam/ipam/allocator/ledger"
)

// begins are how the values of a block of each version begin.
var begins = [...]string{valueVersion: `{"v":1`, reservedVersion: `{"v":2`, timedVersion: `{"v":3`}

// scanRecord reads the value of a block with one holder as [Record.Encode] writes it: the fields
// in that order, and strings of printable ASCII without escapes. Lists decode millions of
// such values, and encoding/json takes longer for each than etcd takes to read it. ok is
// false for any other value, which may still be valid JSON.
//
// The strings of the result share one copy of the value: clone one that is kept.
func scanRecord(value []byte) (h Holding, ok bool) {
	if !simple(value) {
		return Holding{}, false
	}
	s := scanner{rest: string(value)}
	version := s.version()
	h.Pool = ledger.PoolID(s.text(`,"pool":"`))
	h.Claim = ledger.ClaimID(s.text(`,"claim":"`))
	h.Cluster = ledger.ClusterName(s.text(`,"cluster":"`))
	h.Namespace = s.optional(`,"ns":"`)
	h.Name = s.text(`,"name":"`)
	h.Class = s.optional(`,"class":"`)
	h.Policy = ledger.ReclaimPolicy(s.text(`,"policy":"`))
	h.State = ledger.BlockState(s.text(`,"state":"`))
	h.Slice = s.flag(`,"slice":true`)
	h.Shared = s.flag(`,"shared":true`)
	h.BoundAt = s.time(`,"at":"`)
	if version == timedVersion {
		h.Until = s.time(`,"until":"`)
	}
	if since := `,"since":"`; strings.HasPrefix(s.rest, since) {
		h.Since = s.time(since)
	}
	h.Adopted = s.flag(`,"adopted":true`)
	s.skip(`}`)
	return h, !s.failed && s.rest == ""
}

// printRecord writes the value of a block with one holder as encoding/json does, without reflection: every
// bind writes one. ok is false for any other block, and for one of which JSON escapes a character.
func printRecord(version int, h Holding) (value string, ok bool) {
	p := newPrinter(begins[version], 224+len(h.Pool)+len(h.Claim)+len(h.Cluster)+len(h.Namespace)+len(h.Name)+len(h.Class)+len(h.Policy)+len(h.State))
	p.string(`,"pool":"`, string(h.Pool))
	p.string(`,"claim":"`, string(h.Claim))
	p.string(`,"cluster":"`, string(h.Cluster))
	p.optional(`,"ns":"`, h.Namespace)
	p.string(`,"name":"`, h.Name)
	p.optional(`,"class":"`, h.Class)
	p.string(`,"policy":"`, string(h.Policy))
	p.string(`,"state":"`, string(h.State))
	p.flag(`,"slice":true`, h.Slice)
	p.flag(`,"shared":true`, h.Shared)
	p.time(`,"at":"`, h.BoundAt)
	if !h.Until.IsZero() {
		p.time(`,"until":"`, h.Until)
	}
	if !h.Since.IsZero() {
		p.time(`,"since":"`, h.Since)
	}
	p.flag(`,"adopted":true`, h.Adopted)
	return p.end()
}

// printClaim is printRecord for the value of a claim's key.
func printClaim(s ledger.SpaceID, prefix netip.Prefix) (value string, ok bool) {
	p := newPrinter(begins[valueVersion], 72+len(s))
	p.string(`,"space":"`, string(s))
	p.string(`,"prefix":"`, prefix.String())
	p.failed = p.failed || !prefix.IsValid()
	return p.end()
}

// printer writes a value from its beginning. After a failure its text means nothing.
type printer struct {
	text   strings.Builder
	failed bool
}

// newPrinter makes a printer of a value that begins so. size is the length of the rest, as far as it is known: of the
// strings, the names of the fields, and the times.
func newPrinter(begin string, size int) *printer {
	p := &printer{}
	p.text.Grow(len(begin) + size)
	p.text.WriteString(begin)
	return p
}

func (p *printer) end() (value string, ok bool) {
	p.text.WriteByte('}')
	return p.text.String(), !p.failed
}

func (p *printer) string(introduced, s string) {
	p.text.WriteString(introduced)
	for i := range len(s) {
		switch c := s[i]; c {
		case '"', '\\', '<', '>', '&':
			p.failed = true
		default:
			p.failed = p.failed || c < ' ' || c > '~'
		}
	}
	p.text.WriteString(s)
	p.text.WriteByte('"')
}

// optional is string of a field that is left out when it is empty.
func (p *printer) optional(introduced, s string) {
	if s != "" {
		p.string(introduced, s)
	}
}

func (p *printer) flag(literal string, set bool) {
	if set {
		p.text.WriteString(literal)
	}
}

func (p *printer) time(introduced string, t time.Time) {
	var buffer [len(time.RFC3339Nano)]byte
	text, err := t.AppendText(buffer[:0])
	p.failed = p.failed || err != nil
	p.text.WriteString(introduced)
	p.text.Write(text)
	p.text.WriteByte('"')
}

// simple reports whether a JSON value has only characters that stand for themselves.
func simple(value []byte) bool {
	for _, c := range value {
		if c < ' ' || c > '~' || c == '\\' {
			return false
		}
	}
	return true
}

// scanner reads a value from its beginning. After a failure its results mean nothing.
type scanner struct {
	rest   string
	failed bool
}

// version reads how a value begins, with one of the versions that a block may have.
func (s *scanner) version() int {
	for v := valueVersion; v <= timedVersion; v++ {
		if s.flag(begins[v]) {
			return v
		}
	}
	s.failed = true
	return 0
}

func (s *scanner) skip(literal string) {
	rest, ok := strings.CutPrefix(s.rest, literal)
	s.rest, s.failed = rest, s.failed || !ok
}

// text reads a string that follows the literal which introduces it.
func (s *scanner) text(introduced string) string {
	s.skip(introduced)
	text, rest, ok := strings.Cut(s.rest, `"`)
	s.rest, s.failed = rest, s.failed || !ok
	return text
}

// optional is text of a field that may be missing.
func (s *scanner) optional(introduced string) string {
	if !strings.HasPrefix(s.rest, introduced) {
		return ""
	}
	return s.text(introduced)
}

// flag reports whether a field that may be missing is there.
func (s *scanner) flag(literal string) bool {
	rest, ok := strings.CutPrefix(s.rest, literal)
	s.rest = rest
	return ok
}

func (s *scanner) time(introduced string) (t time.Time) {
	if err := t.UnmarshalText([]byte(s.text(introduced))); err != nil {
		s.failed = true
	}
	return t
}
