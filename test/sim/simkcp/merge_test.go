package simkcp

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	jsonpatch "gopkg.in/evanphx/json-patch.v4"

	"github.com/kcp-ipam/ipam/test/must"
)

// A merge of parsed objects is that of their text, which a real server makes.
func TestMerge_GivesTheResultOfAMergeOfText(t *testing.T) {
	t.Parallel()
	const stored = `{"a":{"b":1,"c":[1,null,{"d":null}],"e":{"f":"g"}},"h":"i","j":[{"k":1}],"l":null,"m":1.5}`
	for _, patch := range []string{
		`{}`, `{"h":null}`, `{"none":null}`, `{"a":null}`, `{"a":{"b":null}}`, `{"a":{"e":{"f":null,"n":2}}}`, `{"a":"text"}`, `{"a":[1]}`,
		`{"h":{"o":null,"p":{"q":null,"r":1}}}`, `{"new":{"o":null,"p":{"q":null,"r":[null,{"s":null}]}}}`, `{"j":[{"k":null},null,2]}`,
		`{"l":{"o":null}}`, `{"l":1}`, `{"m":2.0}`, `{"m":9007199254740993}`, `{"a":{"c":[{"d":null}]}}`, `{"a":{"c":{"d":null}}}`, `{"a":{"e":{}}}`,
	} {
		want := must.Get(read(must.Get(jsonpatch.MergePatch([]byte(stored), []byte(patch)))(t)))(t).Object
		got, changes := must.Get(read([]byte(stored)))(t).Object, must.Get(read([]byte(patch)))(t).Object
		merge(got, changes)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-text +parsed):\n%s", patch, diff)
		}
	}
}
