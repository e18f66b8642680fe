MAKEFLAGS += --warn-undefined-variables --no-builtin-rules
SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

# Nobody debugs what is built here. Without debug information a cold build takes an eighth less, and a link a seventh. Without the paths
# of this machine, clones share what is built: that of the tests of the documentation, too.
GOFLAGS ?= -trimpath -gcflags=all=-dwarf=false -ldflags=-w
export GOFLAGS

BIN := .cache/bin
TOOL := go tool -modfile=tools/dev/go.mod
# The linter remembers findings by absolute path: each clone has its own cache, or one reports another's.
XDG_CACHE_HOME ?=
LINT_CACHE := $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/kcp-ipam/lint$(CURDIR)

# Arguments of the program behind `make run`: --once ends it when the claims are bound.
RUN_ARGS ?=
# What `make test` tests, if not everything, and how: make test TEST=./allocator/... TEST_ARGS='-run Release'.
TEST ?=
TEST_ARGS ?=
# kcp takes most of the time, and a seventh of that to collect garbage: it may use more memory instead.
TEST_GOGC ?= 300

.PHONY: help
help: ## Show this help
	@grep -hE '^[a-z0-9-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-14s %s\n", $$1, $$2}'

.PHONY: run
run: ## Start kcp, etcd and the controller, and have two tenants claim addresses (Ctrl-C stops it)
	@mkdir -p $(BIN) && $(MAKE) --no-print-directory -j2 kcp run-program && exec $(BIN)/run $(RUN_ARGS)

# Beside kcp the first time: both take minutes then, and each leaves processors idle while it links.
.PHONY: run-program
run-program:
	@go build -o $(BIN)/run ./test/run

.PHONY: run-standalone
run-standalone: ## The same without kcp: start Kubernetes and the controller, and have two namespaces claim addresses
	@mkdir -p $(BIN) && go build -o $(BIN)/run ./test/run && exec $(BIN)/run --standalone $(RUN_ARGS)

# What needs no kcp: everything but the tests of the whole.
UNIT := ./allocator/... ./apis/... ./cmd/... ./config/... ./controllers/... ./internal/... ./ipamclient/... ./workspaces/... ./tools/gen ./tools/install \
	./test ./test/bench/... ./test/chaos/history ./test/framework/... ./test/gen/... ./test/must

.PHONY: unit
unit: ## Run the tests that need no kcp, without the race detector (under 2 minutes, once built)
	@$(TOOL) gotestsum --format pkgname --hide-summary=skipped -- -count=1 $(TEST_ARGS) $(UNIT)

# Go remembers which packages have passed as they are: what a change does not reach is not run again.
.PHONY: check
check: lint kcp ## Run before each commit: the linters, the tests that need no kcp, and claims on a real kcp (under 5 minutes, once built)
	@$(TOOL) gotestsum --format pkgname --hide-summary=skipped -- -vet=off $(UNIT)
	@go test -count=1 -vet=off -run TestClaim_ ./test/e2e

.PHONY: test-image
test-image: ## Run the tests of the image, in a module of its own
	@go test -C tools/image -count=1 ./...

.PHONY: test
test: kcp-shards kube chromium ## Run every test but the long ones: unit, model, and end to end on a real kcp and a real Kubernetes
	@GOGC=$(TEST_GOGC) TEST="$(TEST)" $(TOOL) gotestsum --format pkgname --hide-summary=skipped --raw-command -- hack/test.sh $(TEST_ARGS)

.PHONY: e2e
e2e: kcp ## Run the end-to-end tests alone; builds a Kubernetes only for a test that needs one
	@GOGC=$(TEST_GOGC) $(TOOL) gotestsum --format testname -- -count=1 -timeout 75m $(TEST_ARGS) ./test/e2e/...

# Arguments of the benchmark: make bench BENCH_ARGS='--rounds 1'
BENCH_ARGS ?= --out docs/benchmarks.md

# Arguments of the ledger's benchmark, and of the long runs of chaos: make chaos CHAOS_ARGS='-seeds 7 -duration 60s'
LEDGER_ARGS ?= --out docs/benchmarks.md
CHAOS_ARGS ?= -rounds 10 -duration 60s
# Arguments of the long runs of chaos through the whole stack: make chaos STACK_ARGS='-seeds 7 -faults 40'
STACK_ARGS ?= -rounds 3 -faults 15

.PHONY: bench
bench: kcp bench-ledger ## Measure claims through kcp beside a bare controller, into docs/benchmarks.md (up to 12 minutes)
	@go run ./test/bench kcp $(BENCH_ARGS)

.PHONY: bench-ledger
bench-ledger: ## Measure the ledger alone beside raw etcd and go-ipam, into docs/benchmarks.md (up to 6 minutes)
	@go run ./test/bench ledger $(LEDGER_ARGS)

# Arguments of the benchmark of large fleets: make bench-fleet FLEET_ARGS='--workspaces 100 --claims 50000'
FLEET_ARGS ?= --out docs/benchmarks.md

.PHONY: bench-fleet
bench-fleet: ## Measure the controller at sizes beyond what kcp carries, on a stand-in for it, into docs/benchmarks.md
	@go run ./test/bench fleet $(FLEET_ARGS)

# Arguments of the replicas' benchmark: make bench-replicas REPLICAS_ARGS='--failovers 1'
REPLICAS_ARGS ?= --out docs/benchmarks.md

.PHONY: bench-replicas
bench-replicas: kcp ## Measure how long nobody works when the leader is lost, into docs/benchmarks.md (10 minutes)
	@go run ./test/bench replicas $(REPLICAS_ARGS)

.PHONY: chaos
chaos: kcp-shards kube ## Run the long end-to-end tests; kill, stop and cut off etcd, allocators, kcp and controller at length; break the allocator on purpose (90 minutes)
	@go test -race -count=1 ./apis/... ./cmd/... ./config/... ./internal/... ./ipamclient/...
	@GOGC=$(TEST_GOGC) go test -race -count=1 -p 1 -v -timeout 1h -tags long -run TestLong ./test/e2e ./test/shards ./test/capi ./test/guide
	@go test -race -count=1 -v -timeout 3h -run TestChaos ./test/chaos $(CHAOS_ARGS)
	@go test -race -count=1 -v -timeout 3h -tags long ./test/chaos/stack $(STACK_ARGS)
	@go test -count=1 -v -timeout 3h ./test/chaos/mutation -kill

# How many histories make sim plays, and how else: make sim HISTORIES=100 SIM_ARGS='-profile chaos -seed 1 -traces dist/sim'
HISTORIES ?= 10000
SIM_ARGS ?=

.PHONY: sim
sim: ## Play histories of the whole program in simulated time, from new seeds, and print a table of the findings
	@mkdir -p $(BIN) && go test -c -vet=off -o $(BIN)/sim.test ./test/sim
	@cd test/sim && $(CURDIR)/$(BIN)/sim.test -test.run Many -test.timeout 24h -profile all -histories $(HISTORIES) $(SIM_ARGS)

# How long make fuzz searches with each target: make fuzz FUZZ=FuzzResolve FUZZTIME=10m
FUZZTIME ?= 60s
# The targets that make fuzz searches with: those whose name begins so.
FUZZ ?= Fuzz

.PHONY: fuzz
fuzz: ## Fuzz everything that reads what tenants write (a minute for each target)
	@grep -roE '^func $(FUZZ)\w*' --include='*_test.go' . | sort | while IFS= read -r line; do \
		echo "$${line#*func } in $$(dirname "$${line%%:*}")"; \
		go test -p 1 -run '^$$' -fuzz "^$${line#*func }\$$" -fuzztime $(FUZZTIME) "$$(dirname "$${line%%:*}")"; \
	done

.PHONY: vuln
vuln: ## Fail if a known vulnerability can be reached (asks the database of Go, or the copy of it that GOVULNDB names)
	@$(TOOL) govulncheck ./...

# There once the linters of these versions are built, which make lint says before it begins.
LINTERS := .cache/linters-$(shell cat tools/dev/go.sum tools/prose/go.sum | cksum | cut -d' ' -f1)

$(LINTERS):
	@echo "building the linters: some minutes, the first time only"
	@$(TOOL) -n golangci-lint >/dev/null && go tool -modfile=tools/prose/go.mod -n vale >/dev/null
	@mkdir -p $(@D) && touch $@

.PHONY: lint
lint: $(LINTERS) ## Run the linters, of code and of prose
	@hack/prose.sh
	@GOLANGCI_LINT_CACHE=$(LINT_CACHE) $(TOOL) golangci-lint run --allow-parallel-runners ./...
	@linter=$$($(TOOL) -n golangci-lint) && cd tools/image && GOLANGCI_LINT_CACHE=$(LINT_CACHE) "$$linter" run --allow-parallel-runners ./...

.PHONY: generate
generate: ## Write the generated code and manifests again
	@$(TOOL) controller-gen object paths=./apis/...
	@$(TOOL) controller-gen crd:allowDangerousTypes=true paths=./apis/... output:crd:dir=config/crd
	@go run ./tools/gen

.PHONY: verify
verify: ## Fail if something generated, formatted or required has drifted, or a file is too long
	@hack/verify.sh

# What make release calls the version.
VERSION ?= $(shell git describe --tags --always --dirty)

# The image that make image builds, and make install-manifest installs: make image IMAGE=registry.example/ipam
IMAGE ?= ipam-controller
IMAGE_FILE := dist/ipam-controller_image.tar

.PHONY: image
image: ## Build the image of the controller, for amd64 and arm64, into an archive in dist/; needs no container engine
	@hack/image.sh $(IMAGE):$(VERSION) $(IMAGE_FILE)

.PHONY: push
push: ## Push the image that make image built, as VERSION, to the registry that IMAGE names
	@hack/image.sh $(IMAGE):$(VERSION) $(IMAGE_FILE) push

.PHONY: install-manifest
install-manifest: ## Write dist/install-*.yaml, a Helm chart, and ipam-components.yaml and metadata.yaml for clusterctl, with the image by VERSION
	@mkdir -p dist && go run ./tools/install -image $(IMAGE) -version $(VERSION)

.PHONY: release
release: ## Build the kubectl plugin, the image and the manifests into dist/, with checksums and a krew manifest
	@hack/release.sh $(VERSION)
	@$(MAKE) --no-print-directory image install-manifest
	@cd dist && sha256sum ipam-controller_* install-*.yaml kcp-ipam-*.tgz ipam-components.yaml metadata.yaml >>checksums.txt

.PHONY: clean
clean: ## Remove what make run and the builds leave behind (not the kcp cached in the home directory)
	rm -rf .run .run-standalone .cache dist

.PHONY: kcp
kcp: ## Build the kcp server of tools/kcp, once for each version of it
	@hack/servers.sh kcp "about 5 minutes" github.com/kcp-dev/kcp/cmd/kcp

.PHONY: kube
kube: ## Build the Kubernetes API server and controllers of tools/kube, once for each version of them
	@hack/servers.sh kube "about 5 minutes" k8s.io/kubernetes/cmd/kube-apiserver k8s.io/kubernetes/cmd/kube-controller-manager

.PHONY: chromium
chromium: ## Find a Chromium for the tests of the pages, or install Debian's
	@hack/chromium.sh

.PHONY: images
images: kcp chromium ## Take the pictures of docs/images again, of the pages of a real kcp
	@go test -count=1 -timeout 20m -run TestPages ./test/ui -update

.PHONY: kcp-shards
kcp-shards: kcp ## Build what a kcp of several shards needs beside
	@hack/servers.sh kcp "about half a minute beside the kcp server" \
		github.com/kcp-dev/kcp/cmd/cache-server github.com/kcp-dev/kcp/cmd/kcp-front-proxy
