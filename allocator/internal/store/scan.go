package store

import (
	"strings"
	"time"

	"github.com/kcp-ipam/ipam/allocator/ledger"
)

// scanRecord reads the value of a block as [Record.Encode] writes it: the fields
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
	s.skip(`{"v":1`)
	h.Pool = ledger.PoolID(s.text(`,"pool":"`))
	h.Claim = ledger.ClaimID(s.text(`,"claim":"`))
	h.Cluster = ledger.ClusterName(s.text(`,"cluster":"`))
	h.Namespace = s.optional(`,"ns":"`)
	h.Name = s.text(`,"name":"`)
	h.Class = s.optional(`,"class":"`)
	h.Policy = ledger.ReclaimPolicy(s.text(`,"policy":"`))
	h.State = ledger.BlockState(s.text(`,"state":"`))
	h.Slice = s.flag(`,"slice":true`)
	h.BoundAt = s.time(`,"at":"`)
	h.Until = s.optionalTime(`,"until":"`)
	h.Since = s.optionalTime(`,"since":"`)
	h.Adopted = s.flag(`,"adopted":true`)
	s.skip(`}`)
	return h, !s.failed && s.rest == ""
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

// optional reads the string of a field that may be missing.
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

// optionalTime reads the time of a field that may be missing.
func (s *scanner) optionalTime(introduced string) time.Time {
	if !strings.HasPrefix(s.rest, introduced) {
		return time.Time{}
	}
	return s.time(introduced)
}
