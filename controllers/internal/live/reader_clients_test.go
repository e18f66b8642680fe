package live

import (
	"fmt"
	"testing"

	"k8s.io/client-go/rest"

	"github.com/kcp-ipam/ipam/test/must"
)

// A reader keeps one client for each logical cluster of each server, but never more than mostClients.
func TestReader_LimitsTheClientsThatItKeeps(t *testing.T) {
	t.Parallel()
	r := must.Get(NewReader(Options{Config: &rest.Config{Host: "http://platform"}}))(t)
	first := must.Get(r.at("http://one", "a"))(t)
	if must.Get(r.at("http://one", "a"))(t) != first {
		t.Error("the second question makes another client")
	}
	if must.Get(r.at("http://one", "b"))(t) == first || must.Get(r.at("http://two", "a"))(t) == first {
		t.Error("the client of another cluster, or server, is the same")
	}
	for i := range 2 * mostClients {
		must.Get(r.at("http://one", fmt.Sprint(i)))(t)
		if n := len(r.clients); n > mostClients {
			t.Fatalf("%d clients are kept; want %d at most", n, mostClients)
		}
	}
}
