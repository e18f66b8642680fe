package main

import (
	"bytes"
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"runtime/debug"
	"strings"
	"time"
)

// document is an SBOM in SPDX 2.3.
type document struct {
	Version       string         `json:"spdxVersion"`
	License       string         `json:"dataLicense"`
	ID            string         `json:"SPDXID"`
	Name          string         `json:"name"`
	Namespace     string         `json:"documentNamespace"`
	Creation      creation       `json:"creationInfo"`
	Packages      []module       `json:"packages"`
	Relationships []relationship `json:"relationships"`
}

type creation struct {
	Created  string   `json:"created"`
	Creators []string `json:"creators"`
}

type module struct {
	ID       string      `json:"SPDXID"`
	Name     string      `json:"name"`
	Version  string      `json:"versionInfo"`
	Location string      `json:"downloadLocation"`
	Analyzed bool        `json:"filesAnalyzed"`
	Refs     []reference `json:"externalRefs"`
}

type reference struct {
	Category string `json:"referenceCategory"`
	Type     string `json:"referenceType"`
	Locator  string `json:"referenceLocator"`
}

type relationship struct {
	From string `json:"spdxElementId"`
	Type string `json:"relationshipType"`
	To   string `json:"relatedSpdxElement"`
}

// bom lists the modules that a binary was built from, as the binary itself says.
func (s source) bom(program string, binary []byte) ([]byte, error) {
	info, err := buildinfo.Read(bytes.NewReader(binary))
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(binary)
	info.Main.Version = s.Tag.TagStr()
	doc := document{
		Version: "SPDX-2.3", License: "CC0-1.0", ID: "SPDXRef-DOCUMENT", Name: program,
		Namespace: "https://" + info.Main.Path + "/sbom/" + program + "-" + hex.EncodeToString(sum[:]),
		Creation:  creation{s.Time.Format(time.RFC3339), []string{"Tool: " + info.Main.Path + "/tools/image"}},
	}
	main := doc.add(info.Main.Path, info.Main.Version)
	doc.relate(doc.ID, "DESCRIBES", main)
	doc.relate(main, "DEPENDS_ON", doc.add("stdlib", strings.TrimPrefix(info.GoVersion, "go")))
	for _, dependency := range info.Deps {
		used := built(dependency)
		doc.relate(main, "DEPENDS_ON", doc.add(used.Path, used.Version))
	}
	data, err := json.MarshalIndent(doc, "", "  ")
	return append(data, '\n'), err
}

// built returns the module that a binary was built from: the replacement of m, if it has one. A replacement by a
// folder of this repository is not known elsewhere, so built returns m then.
func built(m *debug.Module) *debug.Module {
	if m.Replace == nil || strings.HasPrefix(m.Replace.Path, ".") {
		return m
	}
	return m.Replace
}

// add lists a module, and returns its ID.
func (d *document) add(path, version string) string {
	id := fmt.Sprintf("SPDXRef-Package-%d", len(d.Packages))
	d.Packages = append(d.Packages, module{
		ID: id, Name: path, Version: version, Location: "NOASSERTION",
		Refs: []reference{{"PACKAGE-MANAGER", "purl", "pkg:golang/" + path + "@" + version}},
	})
	return id
}

func (d *document) relate(from, how, to string) {
	d.Relationships = append(d.Relationships, relationship{from, how, to})
}
