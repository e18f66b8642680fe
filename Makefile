MAKEFLAGS += --warn-undefined-variables --no-builtin-rules
SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

BIN := .cache/bin
TOOL := go tool -modfile=tools/dev/go.mod
# The linter remembers findings by absolute path: each clone has its own cache, or one reports another's.
XDG_CACHE_HOME ?=
LINT_CACHE := $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/kcp-ipam/lint$(CURDIR)

# Every tracked or new file with its checksum: two of these tell what a command changed, in a dirty tree too.
SNAPSHOT := { git ls-files -z --cached --others --exclude-standard | xargs -0 sha256sum 2>/dev/null || true; }

# Arguments of the program behind `make run`: --once ends it when the claims are bound.
RUN_ARGS ?=
# What `make test` tests, and how: make test TEST=./allocator/... TEST_ARGS='-run Release'
TEST ?= ./...
TEST_ARGS ?=
# kcp takes most of the time, and a seventh of that to collect garbage: it may use more memory instead.
TEST_GOGC ?= 200

.PHONY: help
help: ## Show this help
	@grep -hE '^[a-z0-9-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-14s %s\n", $$1, $$2}'

.PHONY: run
run: kcp ## Start kcp, etcd and the controller, and have two tenants claim addresses (Ctrl-C stops it)
	@mkdir -p $(BIN) && go build -o $(BIN)/run ./test/run && exec $(BIN)/run $(RUN_ARGS)

.PHONY: test
test: kcp-shards ## Run every test: unit, model, and end to end on a real kcp
	@GOGC=$(TEST_GOGC) $(TOOL) gotestsum --format pkgname --hide-summary=skipped -- \
		-race -count=1 -p 2 -timeout 40m $(TEST_ARGS) $(TEST)

.PHONY: e2e
e2e: kcp ## Run the end-to-end tests alone
	@GOGC=$(TEST_GOGC) $(TOOL) gotestsum --format testname -- -count=1 -timeout 40m $(TEST_ARGS) ./test/e2e/...

# Arguments of the benchmark: make bench BENCH_ARGS='--rounds 1'
BENCH_ARGS ?= --out docs/benchmarks.md

# Arguments of the soak: make soak SOAK_ARGS='--duration 3m --rounds 3'
SOAK_ARGS ?= --out docs/benchmarks.md

# Arguments of the ledger's benchmark, and of the long runs of chaos: make chaos CHAOS_ARGS='-seeds 7 -duration 60s'
LEDGER_ARGS ?= --out docs/benchmarks.md
# Arguments of the benchmark of many workspaces: make bench-scale SCALE_ARGS='--workspaces 10,100,300 --claims 15000'
SCALE_ARGS ?= --out docs/benchmarks.md
CHAOS_ARGS ?= -rounds 10 -duration 60s
# Arguments of the long runs of chaos through the whole stack: make chaos STACK_ARGS='-seeds 7 -faults 40'
STACK_ARGS ?= -rounds 3 -faults 15

.PHONY: bench
bench: kcp bench-ledger ## Measure claims through kcp beside a bare controller, into docs/benchmarks.md (12 minutes)
	@go run ./test/bench kcp $(BENCH_ARGS)

.PHONY: bench-ledger
bench-ledger: ## Measure the ledger alone beside raw etcd and go-ipam, into docs/benchmarks.md (6 minutes)
	@go run ./test/bench ledger $(LEDGER_ARGS)

.PHONY: bench-scale
bench-scale: kcp ## Measure what more workspaces and claims cost, into docs/benchmarks.md (5 minutes)
	@go run ./test/bench scale $(SCALE_ARGS)

# Arguments of the replicas' benchmark: make bench-replicas REPLICAS_ARGS='--rounds 1 --failovers 1'
REPLICAS_ARGS ?= --out docs/benchmarks.md

.PHONY: bench-replicas
bench-replicas: kcp ## Measure replicas, and how long nobody works when the leader is lost, into docs/benchmarks.md (15 minutes)
	@go run ./test/bench replicas $(REPLICAS_ARGS)

.PHONY: soak
soak: kcp ## Churn claims while replicas, etcd and kcp are struck, and see that nothing grows, into docs/benchmarks.md (20 minutes)
	@mkdir -p $(BIN) && go build -o $(BIN)/soak ./test/soak && exec $(BIN)/soak $(SOAK_ARGS)

.PHONY: chaos
chaos: kcp ## Kill, stop and cut off etcd, allocators, kcp and controller at length, and break the allocator on purpose (45 minutes)
	@go test -race -count=1 -v -timeout 3h -run TestChaos ./test/chaos $(CHAOS_ARGS)
	@go test -race -count=1 -v -timeout 3h -run TestStack ./test/chaos/stack $(STACK_ARGS)
	@go test -count=1 -v -timeout 3h ./test/chaos/mutation -kill

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

.PHONY: lint
lint: ## Run the linters
	@GOLANGCI_LINT_CACHE=$(LINT_CACHE) $(TOOL) golangci-lint run --allow-parallel-runners ./...

.PHONY: generate
generate: ## Write the generated code and manifests again
	@$(TOOL) controller-gen object paths=./apis/...
	@$(TOOL) controller-gen crd:allowDangerousTypes=true paths=./apis/... output:crd:dir=config/crd
	@go run ./tools/gen

.PHONY: verify
verify: ## Fail if something generated, formatted or required has drifted, or a file is too long
	@mkdir -p .cache && $(SNAPSHOT) >.cache/before && $(MAKE) --no-print-directory generate && $(SNAPSHOT) >.cache/after
	@diff .cache/before .cache/after || { echo "generated files have drifted: run 'make generate' and commit what it writes" >&2; exit 1; }
	@hack/fork.sh
	@go mod tidy -diff || { echo "go.mod has drifted: run 'go mod tidy' and commit it" >&2; exit 1; }
	@drifted=$$(git ls-files -z '*.go' | xargs -0 gofmt -l); [[ -z "$$drifted" ]] || { echo "run gofmt -w on: $$drifted" >&2; exit 1; }
	@git ls-files -z '*.go' ':!*/zz_generated*' ':!third_party/*' | xargs -0 wc -l | awk '$$2 != "total" && $$1 > 330 \
		{ print $$2 ": " $$1 " lines; split it by nouns, 330 is the limit" > "/dev/stderr"; long = 1 } END { exit long }'

# What make release calls the version, and for which systems it builds.
VERSION ?= $(shell git describe --tags --always --dirty)
PLATFORMS := linux_amd64 linux_arm64 darwin_amd64 darwin_arm64

.PHONY: release
release: ## Build the kubectl plugin for Linux and macOS into dist/, with checksums and a krew manifest
	@rm -rf dist && mkdir -p dist && cp .krew.yaml dist/ipam.yaml && sed -i.old 's|$${VERSION}|$(VERSION)|' dist/ipam.yaml
	@for platform in $(PLATFORMS); do \
		echo "building kubectl-ipam for $$platform"; \
		archive="kubectl-ipam_$$platform.tar.gz"; \
		CGO_ENABLED=0 GOOS="$${platform%_*}" GOARCH="$${platform#*_}" \
			go build -trimpath -ldflags '-s -w -X main.version=$(VERSION)' -o dist/kubectl-ipam ./cmd/kubectl-ipam; \
		tar -czf "dist/$$archive" -C dist kubectl-ipam -C ../cmd/kubectl-ipam kubectl_complete-ipam -C ../.. LICENSE; \
		sum=$$(cd dist && sha256sum "$$archive" | tee -a checksums.txt | cut -d' ' -f1); \
		sed -i.old "s|\$${SHA256_$$platform}|$$sum|" dist/ipam.yaml; \
	done; \
	rm -f dist/kubectl-ipam dist/ipam.yaml.old

.PHONY: clean
clean: ## Remove what make run and the builds leave behind (not the kcp cached in the home directory)
	rm -rf .run .cache dist

.PHONY: kcp
kcp: ## Build the kcp server of tools/kcp, once for each version of it
	@$(call build-kcp,kcp,about 4 minutes)

.PHONY: kcp-shards
kcp-shards: kcp ## Build what a kcp of several shards needs beside
	@$(call build-kcp,cache-server kcp-front-proxy,about half a minute beside the kcp server)

# Builds programs of tools/kcp into a store in the home directory, unless they are there, and links them.
define build-kcp
	key=$$({ cat tools/kcp/go.sum; go version; } | sha256sum | cut -c1-16); \
	store="$${XDG_CACHE_HOME:-$$HOME/.cache}/kcp-ipam/$$key"; \
	missing=(); for program in $(1); do [[ -x "$$store/$$program" ]] || missing+=("github.com/kcp-dev/kcp/cmd/$$program"); done; \
	if (( $${#missing[@]} )); then \
		echo "building $(1) into $$store: $(2), the first time only"; \
		mkdir -p "$$store"; \
		building=$$(mktemp -d "$$store/building.XXXXXX"); \
		trap 'rm -rf "$$building"' EXIT; \
		go -C tools/kcp build -trimpath -o "$$building/" "$${missing[@]}"; \
		mv -f "$$building"/* "$$store/"; \
	fi; \
	mkdir -p $(BIN); \
	for program in $(1); do ln -sfn "$$store/$$program" "$(BIN)/$$program"; done
endef
