package simkcp

import (
	"bufio"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kcp-ipam/ipam/test/must"
)

const other, poolsPath = "tenant1111111111", "/clusters/*/apis/ipam.miloapis.com/v1alpha1/ippools"

// endpoints returns the URLs of the endpoint slice.
func (w *World) endpoints(t *testing.T) (urls []string) {
	t.Helper()
	slice := w.All("apiexportendpointslices")[0]
	list, _, err := unstructured.NestedSlice(slice.Object, "status", "endpoints")
	must.Do(t, err)
	for _, one := range list {
		urls = append(urls, one.(map[string]any)["url"].(string))
	}
	return urls
}

// Each shard shows its own tenants. Its URL is in the slice while it has a tenant.
func TestShards_ShowTheirTenants(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := New()
		defer w.Close()
		if urls := w.endpoints(t); len(urls) != 0 {
			t.Errorf("without a binding the endpoints are %v, want none", urls)
		}
		w.Place(other, "shard-1")
		w.Workspace(tenant, "root:team-a", "default")
		w.Workspace(other, "root:team-b", "default")
		if urls := fmt.Sprint(w.endpoints(t)); urls != "[http://kcp/services/apiexport/shard-0 http://kcp/services/apiexport/shard-1]" {
			t.Errorf("the endpoints are %s, want both", urls)
		}
		for cluster, name := range map[string]string{tenant: "a", other: "b"} {
			must.Get(User{World: w, Cluster: cluster, Name: "t"}.Create(t.Context(), "ippools", aPool(name)))(t)
		}
		for shard, want := range map[string]string{"shard-0": `"name":"a"`, "shard-1": `"name":"b"`} {
			code, list := w.as(userController).send(t, "GET", Endpoint(shard)+poolsPath, "", "")
			if items, _, _ := unstructured.NestedSlice(list.Object, "items"); code != http.StatusOK || len(items) != 1 || !strings.Contains(string(text(list)), want) {
				t.Errorf("%s lists %v, want one pool with %s", shard, list.Object, want)
			}
		}
		if code, _ := w.as(userController).send(t, "GET", Endpoint("shard-0")+strings.Replace(poolsPath, "*", other, 1), "", ""); code != http.StatusForbidden {
			t.Errorf("a shard answers %d for a workspace of another one, want 403", code)
		}
		w.Unbind(other, 0)
		if urls := fmt.Sprint(w.endpoints(t)); urls != "[http://kcp/services/apiexport/shard-0]" {
			t.Errorf("the endpoints are %s, want one", urls)
		}
	})
}

// The restart of a shard ends only the watches of that shard.
func TestBreakShard_EndsOnlyTheWatchesOfThatShard(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.Place(other, "shard-1")
		w.Workspace(other, "root:team-b", "default")
		ended := map[string]chan bool{}
		for _, shard := range []string{"shard-0", "shard-1"} {
			body := w.watching(t, Endpoint(shard)+poolsPath+"?watch=true")
			ended[shard] = make(chan bool)
			go func() {
				for body.Scan() {
				}
				close(ended[shard])
			}()
		}
		w.BreakShard("shard-1")
		synctest.Wait()
		select {
		case <-ended["shard-0"]:
			t.Error("the watch of the other shard ended")
		default:
		}
		<-ended["shard-1"]
		w.Break()
		<-ended["shard-0"]
	})
}

// watching begins a watch, which the end of the test cuts.
func (w *World) watching(t *testing.T, path string) *bufio.Scanner {
	t.Helper()
	connection := w.as(userController)
	t.Cleanup(connection.Cut)
	r := must.Get(http.NewRequestWithContext(t.Context(), http.MethodGet, "http://kcp"+path, nil))(t)
	return bufio.NewScanner(must.Get(connection.RoundTrip(r))(t).Body)
}

// With another identity, the objects of tenants are hidden. With the former identity, they come back.
func TestReidentify_HidesTheObjectsOfTheFormerIdentity(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	user := User{World: w, Cluster: tenant, Name: "t"}
	must.Get(user.Create(t.Context(), "ippools", aPool("p")))(t)
	w.Reidentify("another")
	if n := len(w.All("ippools")); n != 0 {
		t.Errorf("%d pools are shown with another identity, want 0", n)
	}
	must.Get(user.Create(t.Context(), "ippools", aPool("q")))(t)
	w.Reidentify(firstIdentity)
	if shown := w.All("ippools"); len(shown) != 1 || shown[0].GetName() != "p" {
		t.Errorf("%v are shown with the former identity, want p alone", shown)
	}
}

// The pages of a list show the objects at one revision.
func TestList_ShowsOneRevisionInAllPages(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	user := User{World: w, Cluster: tenant, Name: "t"}
	for _, name := range []string{"a", "b", "c"} {
		must.Get(user.Create(t.Context(), "ippools", aPool(name)))(t)
	}
	at := Endpoint(FirstShard) + poolsPath + "?limit=2"
	_, first := w.as(userController).send(t, "GET", at, "", "")
	must.Do(t, user.Delete(t.Context(), "ippools", "", "c"))
	must.Get(user.Create(t.Context(), "ippools", aPool("d")))(t)
	token, _, _ := unstructured.NestedString(first.Object, "metadata", "continue")
	code, second := w.as(userController).send(t, "GET", at+"&continue="+token, "", "")
	if says := string(text(second)); code != http.StatusOK || !strings.Contains(says, `"name":"c"`) || strings.Contains(says, `"name":"d"`) {
		t.Errorf("the second page is %d %s, want c, which was there when the first was listed", code, says)
	}
	w.Compact()
	if code, _ := w.as(userController).send(t, "GET", at+"&continue="+token, "", ""); code != http.StatusGone {
		t.Errorf("a page of a compacted revision answers %d, want 410", code)
	}
}

// If a selector no longer selects an object, its watch deletes the object. If it begins to select an object, its
// watch adds the object.
func TestWatch_DeletesObjectsThatItNoLongerSelects(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		user := User{World: w, Cluster: tenant, Name: "t"}
		must.Get(user.Create(t.Context(), "ippools", aPool("p")))(t)
		body := w.watching(t, Endpoint(FirstShard)+poolsPath+"?watch=true&labelSelector=a")
		for _, labels := range []string{`{"a":"b"}`, `{"a":"c"}`, `null`, `{"x":"y"}`, `{"a":"d"}`} {
			must.Do(t, user.Patch("ippools", "", "p", `{"metadata":{"labels":`+labels+`}}`))
			pause(t.Context(), time.Second)
		}
		for _, want := range []string{added, modified, deleted, added} {
			if !body.Scan() || !strings.Contains(body.Text(), `{"type":"`+want) {
				t.Errorf("event %s, want %s", body.Text(), want)
			}
		}
	})
}
