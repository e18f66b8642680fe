package ui

import (
	"context"
	"flag"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/kcp-ipam/ipam/test/framework"
	"github.com/kcp-ipam/ipam/test/framework/local"
	"github.com/kcp-ipam/ipam/test/gen"
	"github.com/kcp-ipam/ipam/test/must"
)

var update = flag.Bool("update", false, "take the pictures of docs/images again")

var (
	desk  = look{script: true, width: 1280, height: 840}
	plain = look{width: 1280, height: 840}
	night = look{script: true, dark: true, width: 1280, height: 840}
	phone = look{script: true, width: 390, height: 844}
)

// Platform admins and tenants see all that they may see, with and without scripts.
func TestPages(t *testing.T) {
	s := newTown(t)
	admin, tenant := serve(t, framework.AdminCLI(t, s.platform.Path)), serve(t, s.web.CLI(t))
	for name, how := range map[string]look{"with scripts": desk, "without scripts": plain, "dark": night, "on a phone": phone} {
		t.Run("platform "+name, func(t *testing.T) { asAdmin(s.open(t, admin, how), s) })
		t.Run("tenant "+name, func(t *testing.T) { asTenant(s.open(t, tenant, how), s) })
	}
	t.Run("alive", func(t *testing.T) { alive(s.open(t, tenant, desk), s) })
	for name, how := range map[string]look{"with scripts": desk, "without scripts": plain} {
		t.Run("by keyboard "+name, func(t *testing.T) { keyed(s.open(t, tenant, how)) })
	}
	t.Run("pictures", func(t *testing.T) { pictures(t, admin, s) })
	t.Run("token", func(t *testing.T) { token(t, tenant, s) })
	t.Run("open", func(t *testing.T) { opened(t, s) })
}

// asAdmin walks through all pages.
func asAdmin(b *browser, s town) {
	b.shows("/", "internal-a", "office", "rack", "carved from", "lab", "of <bdi>root:web</bdi>", "PrefixLengthRejected", "default/wide of root:web")
	b.shows("/pool/internal-a", "held by another workspace", "retained", "default/pay-0 of root:payments", "free")
	b.shows("/pool/office", "reserved or excluded", "child pool", "default/desk-0")
	b.shows("/pool/office/192.0.2.64/26?block=192.0.2.64/26", "pool rack", "Open the pool")
	b.shows("/pool/six", "2001:db8::/34", "default/site-0")
	b.shows("/pool/office/list", "default/host-0", "depth-1", "Free blocks by length")
	b.shows("/pool/lab?workspace=root:web", "default/vm-0 of root:web")
	b.shows("/plan?class=internal&length=20", "It would get", "your claim", "Largest free")
	b.shows("/search?q=root:payments", "default/pay-3 of root:payments")
	b.shows("/search?q="+blockOf(b, s.other, "pay-0"), "default/pay-0")
	b.shows("/tenants", "root:payments", "root:web", "class internal", "of 16,384")
	b.shows("/claims", "default/pay-3 of root:payments", "default/desk-0", "PrefixLengthRejected", `href="/`)
	b.shows("/claims?filter=root:payments", "default/pay-3 of root:payments", "/claim/default/pay-3?workspace=root%3Apayments")
	b.shows("/claim/default/pay-0?workspace=root:payments", "internal-a", "History", "bound")
	b.shows("/networks", "network=red", "root:web", "vpc")
	b.shows("/search?q=network%3Dred", "default/eth0")
	b.fits("/", "/claims", "/claim/default/pay-0?workspace=root:payments", "/networks", "/search?q=10.64.0.1", "/tenants", "/pool/office/list", "/search?q=root:payments")
	b.calm()
}

// asTenant walks through all pages, and fails the test if one of them names anything of another tenant.
func asTenant(b *browser, s town) {
	foreign := blockOf(b, s.other, "pay-0")
	pages := map[string]string{}
	see := func(path string, want ...string) { pages[path] = b.shows(path, want...) }
	see("/", "lab", "internal-a", "you hold", "PrefixLengthRejected", "default/wide")
	see("/pool/lab", "held here", "default/vm-0", "free")
	see("/pool/lab/list", "default/vm-0", "Free blocks by length")
	see("/pool/internal-a?workspace="+s.platform.Path, "belongs to another workspace", "default/shop-0", "free, or held by others")
	see("/pool/internal-a/list?workspace="+s.platform.Path, "default/shop-0", "retained")
	see("/plan?class=internal&length=24", "It would get", "which is not shown to you")
	see("/plan?class=internal&length=12", "It would get no block", "PrefixLengthRejected")
	see("/claims", "default/shop-0", "default/wide", "PrefixLengthRejected", "internal-a of "+s.platform.Path)
	see("/claim/default/shop-0", "internal-a of "+s.platform.Path, "it is shown in the workspace of the platform")
	see("/networks", "network=red", "default/whole")
	see("/plan?class=nic", "Say for which network", `name="scope.network"`)
	see("/plan?class=nic&scope.network=red", "It would get")
	see("/plan?pool=lab&length=26", "It would get", "your claim")
	see("/search?q=pay-", "You may see no block")
	see("/search?q="+foreign, "Results for")
	see("/search?q=owned", "default/owned", "&lt;script&gt;alert(1)")
	see("/search?q=default", "default/shop-0")
	for path, page := range pages {
		asked := strings.TrimPrefix(path, "/search?q=") // the page repeats the query, which shows nothing new
		for _, hidden := range []string{"payments", "pay-"} {
			if hidden != asked && strings.Contains(page, hidden) {
				b.Errorf("%s shows a tenant %q, of another tenant", path, hidden)
			}
		}
	}
	b.fits("/", "/claims", "/claim/default/shop-0", "/networks", "/plan?class=nic", "/pool/lab/list", "/search?q=default")
	b.calm()
	for path, want := range map[string]string{
		"/tenants": "This did not work", "/pool/office": "There is no pool office", "/pool/internal-a": "There is no pool internal-a",
		"/pool/lab?workspace=root:payments": "There is no pool",
	} {
		if page := b.shows(path, want); strings.Contains(page, "pay-") {
			b.Errorf("%s shows a tenant a claim of another one", path)
		}
	}
}

// blockOf returns the address of a claim's block.
func blockOf(t testing.TB, tenant *framework.Tenant, name string) string {
	t.Helper()
	claim := gen.Claim(name)
	framework.WaitBound(t, tenant, claim)
	return netip.MustParsePrefix(claim.Status.AllocatedCIDR).Addr().String()
}

// alive tries the parts of a page that need a script: details in place, fresh figures, and a description of what is
// under the pointer.
func alive(b *browser, s town) {
	b.visit("/pool/lab")
	ask(b, "mark the page", chromedp.Evaluate[int](`window.mark = 1`))
	b.click(`svg.map a[aria-label*="default/vm-1"] rect`)
	b.run("read the block's details", chromedp.WaitVisible(chromedp.Search(`//aside//dd[contains(., "default/vm-1")]`)))
	ask(b, "point at a block", chromedp.Evaluate[bool](`document.querySelector('svg.map a[aria-label*="default/vm-2"] rect')
		.dispatchEvent(new PointerEvent("pointermove", {bubbles: true, clientX: 200, clientY: 300}))`))
	b.run("read what is said of it", chromedp.WaitVisible(chromedp.Search(`//*[@id="tip" and contains(., "default/vm-2")]`)))
	framework.Create(b, s.web, gen.Claim("newcomer", gen.FromPool("lab"), gen.Length(26)))
	b.waits("default/newcomer")
	mark, place := ask(b, "look at the mark", chromedp.Evaluate[int](`window.mark`)), ask(b, "read the address", chromedp.Location())
	if mark != 1 || !strings.Contains(place, "block=") {
		b.Errorf("the page was loaded again: the mark is %d at %s", mark, place)
	}
	b.run("go back", chromedp.NavigateBack(), chromedp.WaitVisible(chromedp.Search(`//aside//h2[contains(., "Pick a block")]`)))
	framework.Delete(b, s.web, gen.Claim("newcomer"))
	b.calm()
}

// keyed moves to a block with the tab key, and opens it with the enter key.
func keyed(b *browser) {
	b.visit("/pool/lab")
	const focused = `document.activeElement.getAttribute("aria-label") ?? ""`
	for range 100 {
		b.run("press tab", chromedp.KeyEvent(kb.Tab))
		if strings.Contains(ask(b, "read what has the focus", chromedp.Evaluate[string](focused)), "default/vm-3") {
			break
		}
	}
	b.run("press enter", chromedp.KeyEvent(kb.Enter), chromedp.WaitVisible(chromedp.Search(`//aside//dd[contains(., "default/vm-3")]`)))
	b.calm()
}

// pictures shows that the pictures of docs/ui.md can be taken. With -update it takes them.
func pictures(t *testing.T, admin string, s town) {
	root := must.Get(local.ModuleRoot())(t)
	block := gen.Claim("pay-0")
	framework.WaitBound(t, s.other, block)
	for name, picture := range map[string]struct {
		how  look
		path string
	}{
		"overview": {look{script: true, width: 1280, height: 1000}, "/"},
		"pool":     {look{script: true, width: 1280, height: 900}, "/pool/internal-a/10.64.0.0/18?block=" + block.Status.AllocatedCIDR},
		"list":     {look{script: true, width: 1280, height: 900}, "/pool/office/list"},
		"planner":  {look{script: true, dark: true, width: 1280, height: 1000}, "/plan?class=internal&length=22"},
		"phone":    {look{script: true, dark: true, width: 390, height: 760}, "/pool/office"},
	} {
		b := s.open(t, admin, picture.how)
		b.visit(picture.path)
		image := ask(b, "take the picture "+name, chromedp.CaptureScreenshot())
		b.calm()
		if most := 200_000; len(image) > most {
			t.Errorf("the picture %s has %d bytes, want at most %d", name, len(image), most)
		}
		if *update {
			must.Do(t, os.WriteFile(filepath.Join(root, "docs", "images", name+".png"), image, 0o600))
		}
	}
}

// token shows that a browser without the token is refused, and that the address no longer has the token once it is
// opened.
func token(t *testing.T, address string, s town) {
	b := s.open(t, address, desk)
	place := ask(b, "read the address", chromedp.Location())
	if strings.Contains(place, "token") {
		t.Errorf("the token is still in the address: %s", place)
	}
	stranger := s.open(t, regexp.MustCompile(`token=.*`).ReplaceAllString(address, "token=wrong"), desk)
	if page := stranger.page(); !strings.Contains(page, "is not that of this server") {
		t.Errorf("a wrong token is answered with %s", page)
	}
	if page := stranger.visit("/"); !strings.Contains(page, "it has the token") || strings.Contains(page, "Address space") {
		t.Errorf("no token is answered with %s", page)
	}
}

// opened shows that --open passes the address, with its token, to the program that opens the browser here.
func opened(t *testing.T, s town) {
	dir := t.TempDir()
	file := filepath.Join(dir, "opened")
	script := fmt.Sprintf("#!/bin/sh\nprintf %%s \"$1\" >%s.tmp && mv %[1]s.tmp %[1]s\n", file)
	if err := os.WriteFile(filepath.Join(dir, "xdg-open"), []byte(script), 0o700); err != nil { //nolint:gosec // it is to be run
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+string(os.PathListSeparator)+os.Getenv("PATH"))
	address := serve(t, s.web.CLI(t), "--open")
	framework.Within(t, patience, "the browser to be opened", func(context.Context) error {
		got, err := os.ReadFile(file)
		if err == nil && string(got) != address {
			t.Fatalf("the browser was opened at %q, want %q", got, address)
		}
		return err
	})
}
