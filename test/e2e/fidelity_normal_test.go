package e2e

import (
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// symbols gives corresponding values of both servers the same names: "rv of first-2" is the second revision of the
// object first. Each object has its own count, so a difference in one object shifts no symbol of another.
type symbols struct {
	uids, revisions map[string]string
	names           map[string]string // names that the server has generated
	given           map[string]int    // values by kind and object
}

func newSymbols() symbols {
	return symbols{uids: map[string]string{}, revisions: map[string]string{}, names: map[string]string{}, given: map[string]int{}}
}

// call returns the symbol of a value.
func (s *symbols) call(known map[string]string, of, value string) string {
	if _, ok := known[value]; !ok {
		s.given[of]++
		known[value] = of + "-" + strconv.Itoa(s.given[of])
	}
	return known[value]
}

// learn keeps values that later calls name in braces: {uid:NAME} and {rv:NAME} of an object, and {continue} of a
// list.
func (s *side) learn(a answer) {
	object, _ := a.body.(map[string]any)
	metadata, _ := object["metadata"].(map[string]any)
	name, _ := metadata["name"].(string)
	if token, ok := metadata["continue"].(string); ok && token != "" {
		s.words["continue"] = token
	}
	if a.code >= 300 || name == "" {
		return
	}
	if prefix, ok := metadata["generateName"].(string); ok && len(name) > len(prefix) {
		s.known.call(s.known.names, prefix+"GENERATED", name)
		s.words["generated"] = name
	}
	s.words["uid:"+name], _ = metadata["uid"].(string)
	s.words["rv:"+name], _ = metadata["resourceVersion"].(string)
}

// all returns normal events, without bookmarks: a server may send these at any time.
func (s *side) all(list []answer) (normal []any) {
	for _, one := range list {
		if event, ok := one.body.(map[string]any); ok && event["type"] == "BOOKMARK" {
			continue
		}
		normal = append(normal, s.walk("", one.body))
	}
	return normal
}

// normal returns an answer in the words of both sides. A refusal is reduced to its code and reason: no program reads
// a server's sentences, which come in any order.
func (s *side) normal(a answer) any {
	if status, ok := a.body.(map[string]any); ok && a.code >= http.StatusBadRequest {
		return map[string]any{"code": a.code, "reason": status["reason"]}
	}
	return map[string]any{"code": a.code, "body": s.walk("", a.body)}
}

// walk returns the value of a field in the words of both sides.
func (s *side) walk(key string, value any) any {
	switch value := value.(type) {
	case map[string]any:
		return s.object(value)
	case []any:
		list := make([]any, 0, len(value))
		for _, one := range value {
			list = append(list, s.walk("", one))
		}
		if key == "causes" {
			slices.SortFunc(list, func(a, b any) int { return strings.Compare(fmt.Sprint(a), fmt.Sprint(b)) })
		}
		return list
	case string:
		return s.text(key, value)
	}
	return value
}

// object returns an object in the words of both sides.
func (s *side) object(of map[string]any) map[string]any {
	_, isList := of["items"]
	s.meet(of["metadata"])
	normal := map[string]any{}
	for key, value := range of {
		switch {
		case key == "managedFields":
		case isList && key == "metadata":
			normal[key] = s.listMeta(value)
		default:
			normal[key] = s.walk(key, value)
		}
	}
	return normal
}

// meet gives symbols to the UID and the revision in the metadata of an object.
func (s *side) meet(metadata any) {
	of, _ := metadata.(map[string]any)
	name, _ := of["name"].(string)
	if generated, ok := s.known.names[name]; ok {
		name = generated
	}
	for key, known := range map[string]map[string]string{"uid": s.known.uids, "resourceVersion": s.known.revisions} {
		if value, ok := of[key].(string); ok && name != "" {
			s.known.call(known, key+" of "+name, value)
		}
	}
}

// listMeta returns the metadata of a list. Its revision is that of the server, not of an object.
func (s *side) listMeta(value any) any {
	normal := map[string]any{}
	for key, v := range value.(map[string]any) {
		switch key {
		case "resourceVersion", "continue":
			if v != "" {
				normal[key] = "some"
			}
		default:
			normal[key] = v
		}
	}
	return normal
}

var (
	timed = regexp.MustCompile(`^\d{4}-\d\d-\d\dT[0-9:.]+Z$`)
	long  = regexp.MustCompile(`\b\d{3,}\b`)
)

// text returns a string in the words of both sides.
func (s *side) text(key, value string) string {
	switch key {
	case "uid":
		return s.known.call(s.known.uids, key, value)
	case "resourceVersion":
		return s.known.call(s.known.revisions, key, value)
	}
	if timed.MatchString(value) {
		return "a time"
	}
	var pairs []string
	for _, word := range []string{"vw", "platformPath", "path", "platform", "tenant"} {
		pairs = append(pairs, s.words[word], "{"+word+"}")
	}
	for _, known := range []map[string]string{s.known.uids, s.known.names} {
		for value, symbol := range known {
			if value != "" {
				pairs = append(pairs, value, symbol)
			}
		}
	}
	value = strings.NewReplacer(pairs...).Replace(value)
	if key != "message" {
		return value
	}
	return long.ReplaceAllStringFunc(value, func(number string) string {
		if symbol, ok := s.known.revisions[number]; ok {
			return symbol
		}
		return number
	})
}
