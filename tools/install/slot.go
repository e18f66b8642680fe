package main

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"sigs.k8s.io/yaml"
)

// slot is a place in the manifests that a value of the chart fills. The place is found in the decoded object, where it gets a
// mark; in the text, the mark becomes a template.
type slot struct {
	kinds string
	path  string
	// prefix chooses the element of a list that is replaced.
	prefix string
	// template stands in the place of the former content.
	template string
	form     form
}

type form int

const (
	replacing form = iota // the content becomes the template
	opting                // the field is there if the value is not empty
	adding                // the value's entries come to those of the list or map
	choosing              // the whole object is there if the value is true
	mounting              // the Secret of a volume becomes the template
)

func replace(kinds, path, template string) slot {
	return slot{kinds: kinds, path: path, template: template, form: replacing}
}

func element(kinds, path, prefix, template string) slot {
	return slot{kinds: kinds, path: path, prefix: prefix, template: template, form: replacing}
}

func optional(kinds, path string) slot { return slot{kinds: kinds, path: path, form: opting} }

func further(kinds, path string) slot { return slot{kinds: kinds, path: path, form: adding} }

func whole(kind string) slot { return slot{kinds: kind, form: choosing} }

func volume(name, template string) slot {
	return slot{kinds: workload, path: pod + "volumes", prefix: name, template: template, form: mounting}
}

// mark puts the mark of a slot into an object, and reports whether the object has the place.
func (s slot) mark(object map[string]any, mark string) bool {
	if s.form == choosing {
		return true
	}
	parent, field := descend(object, s.path)
	if parent == nil {
		return false
	}
	list, _ := parent[field].([]any)
	switch s.form {
	case mounting:
		return mount(list, s.prefix, mark)
	case adding:
		if in, ok := parent[field].(map[string]any); ok {
			in[mark] = ""
			return true
		}
		if list != nil { // an empty list stands nowhere: the entries are all
			parent[field] = append(list, mark)
			return true
		}
	case replacing:
		if s.prefix != "" {
			return exchange(list, s.prefix, mark)
		}
		if _, ok := parent[field]; !ok {
			return false
		}
	case opting, choosing:
	}
	parent[field] = mark
	return true
}

// descend returns the map that has the last field of a path, or nil. A number is an index.
func descend(object map[string]any, path string) (map[string]any, string) {
	steps := strings.Split(path, ".")
	var at any = object
	for _, step := range steps[:len(steps)-1] {
		switch here := at.(type) {
		case map[string]any:
			at = here[step]
		case []any:
			i, err := strconv.Atoi(step)
			if err != nil || i >= len(here) {
				return nil, ""
			}
			at = here[i]
		default:
			return nil, ""
		}
	}
	parent, _ := at.(map[string]any)
	return parent, steps[len(steps)-1]
}

// mount marks the Secret of a volume.
func mount(volumes []any, name, mark string) bool {
	for _, v := range volumes {
		if v, ok := v.(map[string]any); ok && v["name"] == name {
			v["secret"] = map[string]any{"secretName": mark}
			return true
		}
	}
	return false
}

// exchange marks the first text of a list with a prefix.
func exchange(list []any, prefix, mark string) bool {
	for i, v := range list {
		if v, ok := v.(string); ok && strings.HasPrefix(v, prefix) {
			list[i] = mark
			return true
		}
	}
	return false
}

// fill turns the mark of a slot in the text of an object into a template of a value.
func (s slot) fill(text, mark string, v value) string {
	expression := ".Values." + v.name
	switch s.form {
	case choosing:
		return fmt.Sprintf("{{ if %s }}\n%s\n{{- end }}", expression, text)
	case opting, adding:
		line := regexp.MustCompile(`(?m)^( *)(\S+): ` + mark + `$`)
		text = line.ReplaceAllString(text, "$1{{- with "+expression+" }}\n$1$2: {{ toJson . }}\n$1{{- end }}")
		entry := regexp.MustCompile(`(?m)^( *)` + mark + `: ""$`)
		text = entry.ReplaceAllString(text, "$1{{- range $$key, $$value := "+expression+" }}\n$1{{ $$key }}: {{ toJson $$value }}\n$1{{- end }}")
		item := regexp.MustCompile(`(?m)^( *)- ` + mark + `$`)
		return item.ReplaceAllString(text, "$1{{- range "+expression+" }}\n$1- {{ toJson . }}\n$1{{- end }}")
	case replacing, mounting:
	}
	return strings.ReplaceAll(text, mark, s.template)
}

// templated makes a template of an object. found counts for each value how many slots the object has.
func templated(mode string, object map[string]any, found map[string]int) (string, error) {
	type marked struct {
		slot
		mark  string
		value value
	}
	var all []marked
	kind, _ := object["kind"].(string)
	for i, v := range values {
		for j, s := range v.slots {
			if !strings.Contains(", "+s.kinds+",", ", "+kind+",") || !v.in(mode) {
				continue
			}
			m := marked{s, fmt.Sprintf("slot-%d-%d-here", i, j), v}
			if s.mark(object, m.mark) {
				found[v.name]++
				all = append(all, m)
			}
		}
	}
	text, err := yaml.Marshal(object)
	if err != nil {
		return "", err
	}
	out := strings.TrimSuffix(string(text), "\n")
	if strings.Contains(out, "{{") {
		return "", fmt.Errorf("the %s has {{, which Helm takes for its own", kind)
	}
	for _, m := range all {
		out = m.fill(out, m.mark, m.value)
	}
	return out, nil
}

// in reports whether the value counts in a mode.
func (v value) in(mode string) bool {
	return v.modes == nil || strings.Contains(", "+v.counts()+",", ", "+mode+",")
}
