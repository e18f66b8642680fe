package fleet

import (
	"bufio"
	"encoding/base64"
	"fmt"
	"net/http"
)

// token returns where the next page of a list begins.
func token(revision int64, position int) string {
	return base64.RawURLEncoding.EncodeToString(fmt.Appendf(nil, "%d:%d", revision, position))
}

func parseToken(token string) (revision int64, position int, ok bool) {
	text, err := base64.RawURLEncoding.DecodeString(token)
	if err != nil {
		return 0, 0, false
	}
	n, err := fmt.Sscanf(string(text), "%d:%d", &revision, &position)
	return revision, position, err == nil && n == 2
}

// writeList writes a page of a list. next is 0 if there is no other.
func writeList(w http.ResponseWriter, q request, objects [][]byte, revision int64, next int) {
	w.Header().Set("Content-Type", "application/json")
	out := bufio.NewWriterSize(w, 1<<16)
	fmt.Fprintf(out, `{"apiVersion":%q,"kind":%q,"metadata":{"resourceVersion":"%d"`, q.apiVersion(q.version), q.kind.name+"List", revision)
	following := ""
	if next != 0 {
		following = token(revision, next)
	}
	fmt.Fprintf(out, `,"continue":%q`, following)
	_, _ = out.WriteString(`},"items":[`)
	for i, object := range objects {
		if i > 0 {
			_ = out.WriteByte(',')
		}
		_, _ = out.Write(q.in(object))
	}
	_, _ = out.WriteString("]}\n")
	_ = out.Flush() // the client is gone if it fails
}
