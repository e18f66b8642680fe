package main

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/kcp-ipam/ipam/test/must"
)

var (
	fenced   = regexp.MustCompile("(?ms)^ *```[^\n]*\n(.*?)^ *```$")
	pieces   = regexp.MustCompile(`\s+#.*`)
	endings  = regexp.MustCompile(`[|>&;]|\$\(`)
	named    = regexp.MustCompile(`\b(?:exec|logs|restart|get|scale|debug) (deploy|deployment|sts|statefulset)[/ ]([a-z-]+)`)
	selected = regexp.MustCompile(`-n ipam-system [^|]*?-l (\S+)`)
	program  = regexp.MustCompile(`^(/|\.run/)?ipam-controller$`)
)

// kinds has the kind of a workload for each word by which kubectl knows it.
var kinds = map[string]string{"deploy": "deployment", "deployment": "deployment", "sts": "statefulset", "statefulset": "statefulset"}

// pages returns the commands in each block of the pages for operators, by page. A command over several lines is joined.
func pages(t *testing.T) map[string][]string {
	t.Helper()
	found := map[string][]string{}
	for _, pattern := range []string{"../../docs/*.md", "../../docs/runbooks/*.md"} {
		files, err := filepath.Glob(pattern)
		if err != nil || len(files) == 0 {
			t.Fatal(files, err)
		}
		for _, file := range files {
			text := must.Get(os.ReadFile(file))(t)
			for _, block := range fenced.FindAllStringSubmatch(string(text), -1) {
				found[file] = append(found[file], strings.ReplaceAll(block[1], "\\\n", " "))
			}
		}
	}
	return found
}

// The program has each command that a page shows, with the flags that the page gives it.
func TestPages_CommandsParse(t *testing.T) {
	seen := 0
	for page, blocks := range pages(t) {
		for line := range strings.SplitSeq(strings.Join(blocks, "\n"), "\n") {
			words := strings.Fields(endings.Split(pieces.ReplaceAllString(line, ""), 2)[0])
			at := slices.IndexFunc(words, program.MatchString)
			// A line with … or [ is a pattern. If a word stands before the program, the line is one of another program, except
			// in kubectl exec.
			if at < 0 || strings.ContainsAny(line, "…[") || (at > 0 && words[at-1] != "--") {
				continue
			}
			seen++
			if err := parses(newCommand(), words[at+1:]); err != nil {
				t.Errorf("%s: %s: %v", page, strings.Join(words, " "), err)
			}
			if slices.Contains(words, "exec") && words[at] != "/ipam-controller" {
				t.Errorf("%s: %s: the image has the program as /ipam-controller", page, strings.Join(words, " "))
			}
		}
	}
	if seen < 10 {
		t.Errorf("the pages have %d commands of ipam-controller; want at least 10", seen)
	}
}

// parses returns an error if a command line is wrong.
func parses(root *cobra.Command, args []string) error {
	cmd, rest, err := root.Find(args)
	if err != nil {
		return err
	}
	if err := cmd.ParseFlags(rest); err != nil {
		return err
	}
	return cmd.ValidateArgs(cmd.Flags().Args())
}

// A reader has one of the overlays. So a block that names the workload of one overlay also names those of the others,
// unless a flag in it shows that it is only for an embedded or an external etcd. Selectors match the pods of all
// overlays.
func TestPages_FitTheOverlays(t *testing.T) {
	pods := map[string]labels.Set{}
	for _, name := range overlays {
		pods[name] = workloadOf(t, name).pod.Labels
	}
	for page, blocks := range pages(t) {
		for _, block := range blocks {
			kindsOf := map[string]bool{}
			for _, match := range named.FindAllStringSubmatch(block, -1) {
				kindsOf[kinds[match[1]]] = true
				if match[2] != "ipam-controller" {
					t.Errorf("%s: no overlay has a workload named %s", page, match[2])
				}
			}
			alone := strings.Contains(block, "etcd.sock") || strings.Contains(page, "cluster-api")
			if len(kindsOf) == 1 && !alone {
				t.Errorf("%s names one of deployment and statefulset; the overlays have both:\n%s", page, block)
			}
			for _, match := range selected.FindAllStringSubmatch(block, -1) {
				selector, err := labels.Parse(match[1])
				if err != nil {
					t.Errorf("%s: %s: %v", page, match[1], err)
					continue
				}
				for name, pod := range pods {
					if !selector.Matches(pod) {
						t.Errorf("%s: %s selects no pod of the overlay %s", page, match[1], name)
					}
				}
			}
		}
	}
}

// Where a command runs in a pod, its directories, sockets and files are those of the pod's overlay.
func TestPages_NamePathsOfThePods(t *testing.T) {
	opts := map[string]*options{"statefulset": parsed(t, workloadOf(t, "dev")), "deployment": parsed(t, workloadOf(t, "ha"))}
	alone := parsed(t, workloadOf(t, "standalone"))
	if alone.etcdDataDir != opts["statefulset"].etcdDataDir || alone.etcdListen != opts["statefulset"].etcdListen {
		t.Error("the overlays dev and standalone have other paths; want the same, as the pages say")
	}
	inPod := regexp.MustCompile(`exec (deployment|statefulset)/\S+ --\s+/ipam-controller (.*)`)
	seen := map[string]int{}
	for page, blocks := range pages(t) {
		for _, match := range inPod.FindAllStringSubmatch(strings.Join(blocks, "\n"), -1) {
			seen[match[1]]++
			own, args := opts[match[1]], strings.Fields(pieces.ReplaceAllString(match[2], ""))
			for i, arg := range args[:len(args)-1] {
				want, ok := map[string]string{
					"--kubeconfig": own.kubeconfig, "--workspace": own.workspace, "--etcd-data-dir": own.etcdDataDir,
					"--etcd-listen-client-url": own.etcdListen, "--etcd-cafile": own.etcdCAFile,
					"--etcd-certfile": own.etcdCertFile, "--etcd-keyfile": own.etcdKeyFile,
				}[arg]
				if ok && args[i+1] != want {
					t.Errorf("%s: %s %s in a pod of the %s; it runs with %q", page, arg, args[i+1], match[1], want)
				}
			}
		}
	}
	if seen["deployment"] < 2 || seen["statefulset"] < 2 {
		t.Errorf("the pages have %v commands in pods; want at least 2 of each", seen)
	}
}
