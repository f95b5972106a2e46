# Targets for contributors. `make check` is what CI runs.

GO ?= go
TOOL = $(GO) tool -modfile=tools.mod
PACKAGES = ./...

.PHONY: help
help: ## this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /\1\t/' | expand -t 16

.PHONY: build
build: ## the command, in this folder
	$(GO) build -o ipcbench ./cmd/ipcbench

.PHONY: check
check: install fmt vet lint drift test race ## all that a change must pass, after installing what it needs: format, vet, linters, generated code, tests, race

.PHONY: install
install:
	@.ci/install

.PHONY: fmt
fmt:
	@bad=$$(gofmt -l $$(git ls-files '*.go')); test -z "$$bad" || { echo "gofmt these files:" $$bad; exit 1; }

.PHONY: vet
vet:
	$(GO) vet $(PACKAGES)

.PHONY: lint
lint:
	$(TOOL) staticcheck $(PACKAGES)
	$(TOOL) actionlint .github/workflows/*.yml

.PHONY: test
test: ## the tests
	$(GO) test -timeout 8m $(PACKAGES)

# The race detector sees no mapped memory; what it can see is in these packages.
.PHONY: race
race:
	$(GO) test -race -timeout 8m ./tensor/... ./phase/... ./futex ./scratch ./trainer ./transports/...

.PHONY: soak
soak: ## the long versions of tests: hundreds of kills, 100,000 messages, 1,000 rounds
	IPCBENCH_SOAK=1 $(GO) test -timeout 60m -count=1 $(PACKAGES)

.PHONY: bench
bench: ## the benchmarks, in benchstat's format
	$(GO) test -run '^$$' -bench . -benchtime 20x ./bench

.PHONY: pr-report
pr-report: ## BASE=main: what this change does to the numbers, as Markdown in pr-report/
	BASE=$(BASE) scripts/pr-report

# The versions of the generators stand in comments, which may differ.
.PHONY: drift
drift:
	@if command -v protoc >/dev/null; then \
		transports/batched/generate.sh && git diff --exit-code -I '^//' -- transports/batched/federationpb; \
	else echo "protoc is not installed: the protobuf code was not compared with its source"; fi

.PHONY: generate
generate: ## the protobuf code again; needs protoc (Debian: protobuf-compiler)
	transports/batched/generate.sh
