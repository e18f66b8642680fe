package ui

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"sigs.k8s.io/controller-runtime/pkg/client"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/test/framework"
	"github.com/kcp-ipam/ipam/test/framework/local"
	"github.com/kcp-ipam/ipam/test/gen"
	"github.com/kcp-ipam/ipam/test/must"
)

// patience is how long one step of a browser may take on a busy machine.
const patience = 2 * time.Minute

// serve starts kubectl ipam ui with a user's kubeconfig, and returns the address that it prints.
func serve(t *testing.T, cli framework.CLI, flags ...string) string {
	t.Helper()
	cmd := exec.CommandContext(context.WithoutCancel(t.Context()), cli.Binary, append([]string{"ui"}, flags...)...) // it is asked to end, below
	cmd.Env = append(os.Environ(), "KUBECONFIG="+cli.Kubeconfig)
	cmd.Stderr = os.Stderr
	out := must.Get(cmd.StdoutPipe())(t)
	must.Do(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Signal(os.Interrupt)
		if err := cmd.Wait(); err != nil {
			t.Errorf("kubectl ipam ui ends with %v, want success", err)
		}
	})
	address, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatalf("kubectl ipam ui prints no address: %v", err)
	}
	return strings.TrimSpace(address)
}

// browser is a window with one page of a server.
type browser struct {
	*testing.T
	ctx context.Context
	// base is the address of the server without its token.
	base string

	mu       sync.Mutex
	troubles []string // the complaints of the browser
}

// look is how a browser shows a page.
type look struct {
	script        bool
	dark          bool
	width, height int64
}

// startChromium starts a browser, which lives as long as the test.
func startChromium(t *testing.T) context.Context {
	t.Helper()
	root := must.Get(local.ModuleRoot())(t)
	program := filepath.Join(root, ".cache", "bin", "chromium")
	if _, err := os.Stat(program); err != nil {
		t.Fatalf("there is no browser: make chromium finds or installs one: %v", err)
	}
	// The browser gets a new folder for its data, which is deleted with the browser.
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(program),
		chromedp.NoSandbox, chromedp.DisableGPU, chromedp.WSURLReadTimeout(patience),
		chromedp.Flag("disable-background-networking", true), chromedp.Flag("disable-component-update", true),
		chromedp.Flag("disable-sync", true), chromedp.Flag("disable-quic", true), chromedp.Flag("hide-scrollbars", true))
	ctx, stop := chromedp.NewExecAllocator(context.WithoutCancel(t.Context()), options...)
	t.Cleanup(stop)
	ctx, closeIt := chromedp.NewContext(ctx)
	t.Cleanup(closeIt)
	if _, err := chromedp.Run(ctx, chromedp.Steps()); err != nil {
		t.Fatalf("start %s: %v", program, err)
	}
	return ctx
}

// open opens an address in a window of its own, which shares no cookies with others.
func (s town) open(t *testing.T, address string, how look) *browser {
	t.Helper()
	ctx, closeIt := chromedp.NewContext(s.chromium, chromedp.WithNewBrowserContext())
	t.Cleanup(closeIt)
	base, _, _ := strings.Cut(address, "/?")
	b := &browser{T: t, ctx: ctx, base: base}
	// The first call opens the window, which lives as long as its context: it must not end early.
	must.Do(t, chromedp.Listen(ctx, b.hears))
	scheme := map[bool]string{true: "dark", false: "light"}[how.dark]
	b.run("set up the window", command(log.Enable, cdp.Empty{}), chromedp.EmulateViewport(how.width, how.height),
		command(emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: !how.script}),
		command(emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
			Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}},
		}))
	b.run("open "+b.base, chromedp.Navigate(address))
	return b
}

// command sends a command that has no answer.
func command[P any](method cdp.Command[P, cdp.Empty], params P) chromedp.Action[chromedp.Void] {
	return chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		_, err := cdp.Call(ctx, t, method, params)
		return err
	})
}

// hears notes the complaints of the browser: scripts that fail, and requests that the policy refuses.
func (b *browser) hears(event any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch event := event.(type) {
	case *runtime.EventExceptionThrown:
		b.troubles = append(b.troubles, fmt.Sprintf("%+v", event.ExceptionDetails))
	case *log.EventEntryAdded:
		if event.Entry.Level == log.EntryLevelError {
			b.troubles = append(b.troubles, fmt.Sprintf("%s %s", event.Entry.Text, event.Entry.URL))
		}
	}
}

// calm fails the test if the browser has complained.
func (b *browser) calm() {
	b.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, trouble := range b.troubles {
		b.Errorf("the browser complains: %s", trouble)
	}
}

// run runs actions in the window.
func (b *browser) run(what string, actions ...chromedp.Action[chromedp.Void]) {
	b.Helper()
	ask(b, what, chromedp.Steps(actions...))
}

// ask runs an action in the window, and returns its answer.
func ask[T any](b *browser, what string, action chromedp.Action[T]) T {
	b.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	answer, err := chromedp.Run(ctx, action)
	if err != nil {
		b.Fatalf("%s: %v", what, err)
	}
	return answer
}

// visit opens a page, and returns its HTML.
func (b *browser) visit(path string) string {
	b.Helper()
	b.run("visit "+path, chromedp.Navigate(b.base+path))
	return b.page()
}

// page returns the HTML that is shown now. It is read in one step: a node's number from an earlier step may belong to
// a page that is gone.
func (b *browser) page() string {
	b.Helper()
	return ask(b, "read the page", chromedp.Evaluate[string](`document.documentElement.outerHTML`))
}

// click clicks an element at its place. The place is found in one step, as in page.
func (b *browser) click(selector string) {
	b.Helper()
	place := ask(b, "find "+selector, chromedp.Evaluate[[2]float64](fmt.Sprintf(`(() => {
		const r = document.querySelector(%q).getBoundingClientRect();
		return [r.x + r.width / 2, r.y + r.height / 2];
	})()`, selector)))
	b.run("click at "+selector, chromedp.MouseClickXY(place[0], place[1]))
}

// shows visits a page, and fails the test unless the page contains all these texts.
func (b *browser) shows(path string, want ...string) string {
	b.Helper()
	page := b.visit(path)
	for _, text := range want {
		if !strings.Contains(page, text) {
			b.Errorf("%s does not show %q:\n%s", path, text, page)
		}
	}
	return page
}

// fits fails the test if on one of these pages a table's cell is outside of the window, or its text is outside of the
// cell.
func (b *browser) fits(paths ...string) {
	b.Helper()
	for _, path := range paths {
		b.visit(path)
		beside := ask(b, "measure the cells of "+path, chromedp.Evaluate[[]string](`[...document.querySelectorAll("td")].filter(cell => {
			const place = cell.getBoundingClientRect();
			return place.right > document.documentElement.clientWidth + 1 || cell.scrollWidth > cell.clientWidth + 1;
		}).map(cell => cell.textContent)`))
		if len(beside) > 0 {
			b.Errorf("%s has %d cells beside the window, the first with %q", path, len(beside), beside[0])
		}
	}
}

// waits waits until the page contains a text. The page is not loaded again.
func (b *browser) waits(text string) {
	b.Helper()
	framework.Within(b, patience, "the page to show "+text, func(context.Context) error {
		if !strings.Contains(b.page(), text) {
			return fmt.Errorf("it does not yet")
		}
		return nil
	})
}

func TestMain(m *testing.M) { os.Exit(framework.Main(m)) }

// hostile is a name that a tenant may give to the owner of a block.
const hostile = `"><script>alert(1)</script>`

// town is a platform with a class and pools, and two tenants.
type town struct {
	platform   *framework.Platform
	web, other *framework.Tenant
	chromium   context.Context
}

// newTown fills a platform. The claims of the tenant other are named pay.
func newTown(t *testing.T) town {
	t.Helper()
	platform := framework.SharedPlatform(t)
	framework.Create(t, platform, gen.Class("internal", gen.Lengths{Min: 20, Max: 28}, gen.DefaultLength(26), gen.Default(), gen.MaxPerConsumer("16384")))
	made(t, platform, gen.Pool("internal-a", gen.CIDR("10.64.0.0/16"), gen.Backs("internal"), gen.Visible(ipamv1alpha1.VisibilityPlatform)))
	made(t, platform, gen.Pool("office", gen.CIDR("192.0.2.0/24"), gen.Reserves(1, 1, 28)))
	made(t, platform, gen.Pool("rack", gen.ChildOf("office", 26)))
	made(t, platform, gen.Pool("six", gen.CIDR("2001:db8::/32")))
	framework.Create(t, platform, gen.Class("vpc", gen.DefaultLength(24), gen.PoolPer("network", ipamv1alpha1.RoleProject)), gen.Class("nic", gen.DefaultLength(32), gen.Below("vpc")))
	made(t, platform, gen.Pool("vpcs", gen.CIDR("10.80.0.0/16"), gen.Backs("vpc"), gen.Visible(ipamv1alpha1.VisibilityPlatform)))
	s := town{platform: platform, web: platform.TenantAt(t, "root:web"), other: platform.TenantAt(t, "root:payments"), chromium: startChromium(t)}
	made(t, s.web, gen.Pool("lab", gen.CIDR("10.200.0.0/20")))

	admin := framework.Admin(t, platform.Path)
	lengths := []int32{22, 24, 23, 26, 25, 24, 21, 26}
	for i, length := range lengths {
		framework.Create(t, s.web, gen.Claim(fmt.Sprintf("shop-%d", i), gen.OfClass("internal"), gen.Length(length)))
		framework.Create(t, s.other, gen.Claim(fmt.Sprintf("pay-%d", i), gen.OfClass("internal"), gen.Length(length)))
		framework.Create(t, s.web, gen.Claim(fmt.Sprintf("vm-%d", i), gen.FromPool("lab"), gen.Length(length+2)))
		framework.Create(t, admin, gen.Claim(fmt.Sprintf("host-%d", i), gen.FromPool("rack"), gen.Length(29+int32(i)%3)))
	}
	for i := range int32(3) {
		framework.Create(t, admin, gen.Claim(fmt.Sprintf("desk-%d", i), gen.FromPool("office"), gen.Length(28)), gen.Claim(fmt.Sprintf("site-%d", i), gen.FromPool("six"), gen.Length(34+i)))
	}
	framework.Create(t, s.web, gen.Claim("owned", gen.OfClass("internal"), gen.OwnedBy(ipamv1alpha1.OwnerRef{Kind: "Service", Namespace: "default", Name: hostile})))
	framework.Create(t, s.web, gen.Claim("wide", gen.OfClass("internal"), gen.Length(12)))
	retained := gen.Claim("archive", gen.OfClass("internal"), gen.Length(23), gen.Reclaim(ipamv1alpha1.ReclaimRetain))
	framework.Create(t, s.web, retained)
	framework.WaitBound(t, s.web, retained, gen.Claim("owned"))
	red := gen.Within("network", "red")
	whole, eth0 := gen.Claim("whole", gen.OfClass("vpc"), red, gen.ForRange()), gen.Claim("eth0", gen.OfClass("nic"), red)
	framework.Create(t, s.web, whole, eth0)
	framework.WaitBound(t, s.web, whole, eth0)
	framework.Delete(t, s.web, retained)
	framework.WaitGone(t, s.web, retained)
	framework.WaitWhile(t, s.platform, gen.Pool("internal-a"), "the pool counts nothing yet", func(pool *ipamv1alpha1.IPPool) bool {
		return pool.Status.Capacity == nil || pool.Status.Capacity.Allocated == "0"
	})
	return s
}

// made makes a pool, and waits until it is ready.
func made(t *testing.T, c client.Client, pool *ipamv1alpha1.IPPool) {
	t.Helper()
	framework.Allocate(t, c, pool)
}
