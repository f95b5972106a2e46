# Targets for contributors. `make check` is what CI runs of every change.

GO ?= go
TOOL = $(GO) tool -modfile=tools.mod
PACKAGES = ./...
# Shows what go test shows, and adds to .skipped what a test could not do here. One package
# more at a time than two processors have work for: much of a test is waiting.
GOTEST = SKIPPED=.skipped $(GO) run ./internal/test/gotest -vet=off -p 3

.PHONY: help
help: ## this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /\1\t/' | expand -t 18

.PHONY: build
build: ## the command, in this folder
	$(GO) build -buildvcs=auto -o ipcbench ./cmd/ipcbench

.PHONY: tools
tools: ## what tests need besides Go, once: packages of Debian, as root
	@.ci/install

.PHONY: check
check: ## all that a change must pass, in minutes, without installing anything: format, vet, linters, short tests, race
	@rm -f .skipped
	@$(MAKE) --no-print-directory fmt vet lint test race
	@$(skipped)

.PHONY: check-long
check-long: ## all else that is no matter of chance, in 20 minutes: whole tests, pages in Chromium, more race, generated code
	@rm -f .skipped
	@$(MAKE) --no-print-directory drift test-long race-long
	@$(skipped)

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
test: ## of check: the short tests
	$(GOTEST) -short -timeout 10m $(PACKAGES)

.PHONY: test-long
test-long: ## of check-long: the whole tests
	$(GOTEST) -timeout 30m $(PACKAGES)

# The race detector sees no mapped memory. What it can see best is in the first list, and
# in one transport a family, whose workers are goroutines of the server's process.
.PHONY: race
race:
	@$(if $(cc),$(GOTEST) -race -short -timeout 10m ./phase/... ./internal/futex ./transports ./transports/internal/... && \
		$(GOTEST) -race -short -timeout 10m -run '^Test(Conformance|Pickle|Slab|Streaming|HTTP)$$' ./transports/inproc ./transports/pickle ./transports/shm ./transports/batched ./transports/http,$(no_cc))

.PHONY: race-long
race-long:
	@$(if $(cc),$(GOTEST) -race -timeout 30m ./tensor/... ./receipt ./phase/... ./internal/futex ./internal/scratch ./trainer ./transports/... ./examples/fedavg,$(no_cc))

cc = $(shell command -v $(firstword $(shell $(GO) env CC)) 2>/dev/null)
no_cc = $(call missing,$(shell $(GO) env CC) (Debian: gcc libc6-dev),the race detector)

# missing TOOL,TEST: what was not done for want of a tool; an error where CI is set.
missing = { printf 'not installed: %s\t%s\n' '$(1)' '$(2)' >>.skipped; test -z "$$CI" || { echo 'not installed: $(1): $(2)' >&2; exit 1; }; }

# Why tests were skipped, each reason once, with their number.
skipped = test ! -s .skipped && echo "skipped: nothing" || { echo "skipped:"; sort -u .skipped | cut -f 1 | uniq -c; }

.PHONY: soak
soak: soak-transports soak-bench soak-crashes soak-ipcbench soak-layouts ## chance and hours: the long versions of tests, in five parts that take up to an hour each
SOAK = IPCBENCH_TEST_SOAK=1 $(GO) test -timeout 60m -count=1

.PHONY: soak-transports
soak-transports: ## of soak: 100,000 messages, hundreds of deaths, and all that is not in the other parts
	$(SOAK) $$($(GO) list ./... | grep -v -e /bench -e /cli)

.PHONY: soak-bench
soak-bench: ## of soak: 1,000 rounds of every transport
	$(SOAK) ./bench/...

# Where go test is told of no package, it shows what a test prints that passes.
.PHONY: soak-crashes
soak-crashes: ## of soak: 1,000 kills, full disks and memory, stopped processes, and a line of what came of each
	cd cli && $(SOAK) -parallel 6 -run '^TestFaults$$'

.PHONY: soak-ipcbench
soak-ipcbench: ## of soak: a build compared with itself, slowdowns that must be found, 200 collaborators
	$(SOAK) -skip '^Test(Faults|SoakLayouts)$$' ./cli

.PHONY: soak-layouts
soak-layouts: ## of soak: 1,000 reports drawn from one run of 24 layouts of one commit
	cd cli && $(SOAK) -v -run '^TestSoakLayouts$$'

.PHONY: bench
bench: ## the benchmarks, in benchstat's format
	$(GO) test -run '^$$' -bench . -benchtime 20x ./bench

.PHONY: layouts
layouts: ## what a linker's order of functions does to the loops of a round and of codecs, on an idle machine; Ctrl-C ends it early
	$(GO) run ./internal/test/layouts ./tensor ./codec

.PHONY: pr-report
pr-report: ## BASE=main: what this change does to the numbers, as Markdown in pr-report/; scripts/pr-report says more
	@scripts/pr-report

# The versions of the generators stand in comments, which may differ.
.PHONY: drift
drift: ## of check-long: generated code is what its source gives
	@if command -v protoc >/dev/null && command -v grpc_python_plugin >/dev/null && command -v git >/dev/null; then \
		$(MAKE) --no-print-directory generate && git diff --exit-code -I '^//' -- internal/kernel transports/batched/federationpb python/ipcbench_worker/federation_pb2.py 'python/peers/*_pb2*.py'; \
	else $(call missing,protoc or its plugin for Python or git (Debian: protobuf-compiler protobuf-compiler-grpc git),generated code); fi

.PHONY: generate
generate: ## the protobuf code again, and the loops in assembly; needs protoc (Debian: protobuf-compiler protobuf-compiler-grpc)
	internal/kernel/generate.sh
	transports/batched/generate.sh
	python/peers/generate.sh
