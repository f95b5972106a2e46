# Targets for contributors. `make check` is what CI runs.

GO ?= go
TOOL = $(GO) tool -modfile=tools.mod
PACKAGES = ./...

.PHONY: help
help: ## this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /\1\t/' | expand -t 18

.PHONY: build
build: ## the command, in this folder
	$(GO) build -buildvcs=auto -o ipcbench ./cmd/ipcbench

.PHONY: check
check: ## all that a change must pass, after installing what it needs: format, vet, linters, generated code, tests, race
	@rm -f .skipped
	@SKIPPED=.skipped $(MAKE) --no-print-directory install fmt vet lint drift test race
	@echo "skipped in all: $$(sort -u .skipped | grep -c .) (the kernel refuses)"

.PHONY: install
install:
	@.ci/install

.PHONY: fmt
fmt:
	@bad=$$(find . -name '*.go' -not -path './.*' -exec gofmt -l {} +) || exit 1; test -z "$$bad" || { echo "gofmt these files:" $$bad; exit 1; }

.PHONY: vet
vet:
	$(GO) vet $(PACKAGES)

.PHONY: lint
lint:
	$(TOOL) staticcheck $(PACKAGES)
	$(TOOL) actionlint .github/workflows/*.yml

.PHONY: test
test: ## the tests
	$(GO) run ./internal/gotest -timeout 8m $(PACKAGES)

# The race detector sees no mapped memory; what it can see is in these packages.
.PHONY: race
race:
	@if cc=$$($(GO) env CC) && command -v "$${cc%% *}" >/dev/null; then \
		$(GO) run ./internal/gotest -race -timeout 8m ./tensor/... ./receipt ./phase/... ./futex ./scratch ./trainer ./transports/...; \
	else $(call missing,$$cc (Debian: gcc libc6-dev),nothing was tested with the race detector); fi

# missing TOOL,CONSEQUENCE: an error where CI is set.
missing = { echo "not installed: $(1): $(2)" >&2; test -z "$$CI"; }

.PHONY: soak
soak: soak-transports soak-bench soak-crashes soak-ipcbench ## the long versions of tests, in four parts that take up to an hour each
SOAK = IPCBENCH_TEST_SOAK=1 $(GO) test -timeout 60m -count=1

.PHONY: soak-transports
soak-transports: ## of soak: 100,000 messages, hundreds of deaths, and all that is not in the other parts
	$(SOAK) $$($(GO) list ./... | grep -v -e /bench -e /cli)

.PHONY: soak-bench
soak-bench: ## of soak: 1,000 rounds of every transport
	$(SOAK) ./bench/...

# Where go test is told of no package, it shows what a test prints that passes.
.PHONY: soak-crashes
soak-crashes: ## of soak: 1,000 kills, full disks and memory, stopped processes, and a table of what came of it
	cd cli && $(SOAK) -parallel 6 -run '^TestFaults$$'

.PHONY: soak-ipcbench
soak-ipcbench: ## of soak: a build compared with itself, slowdowns that must be found, 200 collaborators
	$(SOAK) -skip '^TestFaults$$' ./cli

.PHONY: bench
bench: ## the benchmarks, in benchstat's format
	$(GO) test -run '^$$' -bench . -benchtime 20x ./bench

.PHONY: pr-report
pr-report: ## BASE=main: what this change does to the numbers, as Markdown in pr-report/; scripts/pr-report says more
	@scripts/pr-report

# The versions of the generators stand in comments, which may differ.
.PHONY: drift
drift:
	@if command -v protoc >/dev/null && command -v grpc_python_plugin >/dev/null && command -v git >/dev/null; then \
		$(MAKE) --no-print-directory generate && git diff --exit-code -I '^//' -- transports/batched/federationpb python/ipcbench_worker/federation_pb2.py 'python/peers/*_pb2*.py'; \
	else $(call missing,protoc or its plugin for Python or git (Debian: protobuf-compiler protobuf-compiler-grpc git),the protobuf code was not compared with its source); fi

.PHONY: generate
generate: ## the protobuf code again; needs protoc (Debian: protobuf-compiler protobuf-compiler-grpc)
	transports/batched/generate.sh
	python/peers/generate.sh
