package test

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kcp-ipam/ipam/test/must"
)

// The map of ARCHITECTURE.md has each folder with Go files, either by itself or under a folder that the map does not
// divide. It has no other folder.
func TestMap(t *testing.T) {
	t.Parallel()
	page := must.Get(os.ReadFile("../ARCHITECTURE.md"))(t)
	_, drawn, _ := strings.Cut(string(page), "\n## The map\n")
	_, drawn, _ = strings.Cut(drawn, "```\n")
	drawn, _, _ = strings.Cut(drawn, "```")
	divided := folders(drawn)
	for folder := range divided {
		if info, err := os.Stat(filepath.Join("..", folder)); err != nil || !info.IsDir() {
			t.Errorf("the map has %s, which is not a folder", folder)
		}
	}
	err := filepath.WalkDir("..", func(path string, entry fs.DirEntry, err error) error {
		name := entry.Name()
		switch {
		case err != nil:
			return err
		case entry.IsDir() && path != ".." && (strings.HasPrefix(name, ".") || name == "testdata" || name == "dist"):
			return fs.SkipDir
		case entry.IsDir() || !strings.HasSuffix(name, ".go"):
			return nil
		}
		folder, _ := filepath.Rel("..", filepath.Dir(path))
		if !covered(divided, folder) {
			t.Errorf("the map lacks %s", folder)
			return fs.SkipDir
		}
		return nil
	})
	if err != nil {
		t.Errorf("walk through the folders: %v", err)
	}
}

// folders returns the folders of a map, and whether the map divides each.
func folders(drawn string) map[string]bool {
	divided := map[string]bool{}
	var above []string // by depth
	for line := range strings.Lines(drawn) {
		depth := (len(line) - len(strings.TrimLeft(line, " "))) / 2
		for i, word := range strings.Fields(line) {
			name, isFolder := strings.CutSuffix(word, "/")
			if !isFolder {
				break
			}
			if depth > 0 && depth <= len(above) {
				divided[above[depth-1]] = true
				name = above[depth-1] + "/" + name
			}
			if i == 0 {
				above = append(above[:min(depth, len(above))], name)
			}
			if _, known := divided[name]; !known {
				divided[name] = false
			}
		}
	}
	return divided
}

// covered reports whether the map has a folder, or a folder above it that the map does not divide.
func covered(divided map[string]bool, folder string) bool {
	if _, ok := divided[folder]; ok {
		return true
	}
	for folder = filepath.Dir(folder); folder != "."; folder = filepath.Dir(folder) {
		if parts, ok := divided[folder]; ok {
			return !parts
		}
	}
	return false
}
