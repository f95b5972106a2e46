# Targets for contributors. CI runs `make check` for every change.

GO ?= go
TOOL = $(GO) tool -modfile=tools.mod
PACKAGES = ./...
# Prints the output of go test, and appends skipped tests with their reasons to .skipped.
# It tests three packages at a time on two processors, because tests mostly wait.
GOTEST = SKIPPED=.skipped $(GO) run ./internal/test/gotest -vet=off -p 3

.PHONY: help
help: ## this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /\1\t/' | expand -t 18

.PHONY: build
build: ## the command, in this folder
	$(GO) build -buildvcs=auto -o ipcbench ./cmd/ipcbench

# The first of buildah, podman and docker builds the image. The context has only root.tar.
IMAGE ?= localhost/ipcbench
.PHONY: image
image: ## the container image IMAGE, with the command alone; needs buildah, podman or docker
	@tool=$$(command -v buildah || command -v podman || command -v docker) || { echo "make image needs buildah, podman or docker (Debian: buildah)" >&2; exit 1; }; \
	dir=$$(mktemp -d) && trap 'rm -rf "$$dir"' EXIT && mkdir -m 1777 "$$dir/tmp" && \
	CGO_ENABLED=0 $(GO) build -buildvcs=auto -o "$$dir/ipcbench" ./cmd/ipcbench && chmod 755 "$$dir/ipcbench" && \
	tar -C "$$dir" --owner=0 --group=0 --remove-files -cf "$$dir/root.tar" tmp ipcbench && \
	"$$tool" build -f Containerfile -t $(IMAGE) "$$dir"

# The name of the distribution on a package index is the owner's choice; the command is ipcbench.
NAME ?= ipcbench

.PHONY: wheel
wheel: ## Python wheels with the command, in dist/
	@NAME='$(NAME)' GO='$(GO)' scripts/release wheel

.PHONY: release
release: ## VERSION=v0.1.0: binaries, wheels, source, checksums and notes of a release, in dist/
	@NAME='$(NAME)' GO='$(GO)' scripts/release all

.PHONY: tools
tools: ## install Debian packages that tests need, once, as root
	@.ci/install

.PHONY: check
check: ## required for every change, takes minutes, installs nothing: format, vet, linters, short tests, race
	@rm -f .skipped
	@$(MAKE) --no-print-directory fmt vet lint test race
	@$(skipped)

.PHONY: check-long
check-long: ## the other deterministic checks, 25 minutes: full tests, pages in Chromium, more race, generated code
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
	$(TOOL) actionlint .github/workflows/*.yml examples/ci/workflow.yml

.PHONY: test
test: ## part of check: the short tests
	$(GOTEST) -short -timeout 10m $(PACKAGES)

.PHONY: test-long
test-long: ## part of check-long: the full tests
	$(GOTEST) -timeout 30m $(PACKAGES)
	cd examples/kubernetes && $(GO) test ./... # another module, whose dependencies are not the program's

# The race detector does not see mapped memory. It is most useful for the first list of
# packages, and for one transport per family with workers as goroutines of the server.
.PHONY: race
race:
	@$(if $(cc),$(GOTEST) -race -short -timeout 10m ./phase/... ./internal/futex ./transports ./transports/http/store ./transports/internal/... && \
		$(GOTEST) -race -short -timeout 10m -run '^Test(Conformance|Pickle|Slab|Streaming|HTTP)$$' ./transports/inproc ./transports/pickle ./transports/shm ./transports/batched ./transports/http,$(no_cc))

.PHONY: race-long
race-long:
	@$(if $(cc),$(GOTEST) -race -timeout 30m ./tensor/... ./receipt ./phase/... ./internal/futex ./internal/scratch ./trainer ./transports/... ./fedavg,$(no_cc))

cc = $(shell command -v $(firstword $(shell $(GO) env CC)) 2>/dev/null)
no_cc = $(call missing,$(shell $(GO) env CC) (Debian: gcc libc6-dev),the race detector)

# missing TOOL,TEST: records that TEST was skipped because TOOL is missing; fails if CI is set.
missing = { printf 'not installed: %s\t%s\n' '$(1)' '$(2)' >>.skipped; test -z "$$CI" || { echo 'not installed: $(1): $(2)' >&2; exit 1; }; }

# Prints each reason for skipped tests, with the number of tests.
skipped = test ! -s .skipped && echo "skipped: nothing" || { echo "skipped:"; sort -u .skipped | cut -f 1 | uniq -c; }

.PHONY: soak
soak: soak-transports soak-bench soak-crashes soak-ipcbench soak-layouts ## long randomized tests, in five parts of up to an hour each
SOAK = IPCBENCH_TEST_SOAK=1 $(GO) test -timeout 60m -count=1

.PHONY: soak-transports
soak-transports: ## part of soak: 100,000 messages, hundreds of killed processes, and all tests that are not in other parts
	$(SOAK) $$($(GO) list ./... | grep -v -e /bench -e /cli)

.PHONY: soak-bench
soak-bench: ## part of soak: 1,000 rounds of every transport
	$(SOAK) ./bench/...

# Without a package argument, go test also prints the output of passing tests.
.PHONY: soak-crashes
soak-crashes: ## part of soak: 1,000 kills, full disks and memory, stopped processes; SHARE=20 makes it a fifth
	cd cli && IPCBENCH_TEST_SHARE=$(SHARE) $(SOAK) -parallel 6 -run '^TestFaults$$'

.PHONY: soak-ipcbench
soak-ipcbench: ## part of soak: a build compared with itself, slowdowns that must be found, 200 collaborators
	$(SOAK) -skip '^Test(Faults|SoakLayouts)$$' ./cli

.PHONY: soak-layouts
soak-layouts: ## part of soak: 1,000 reports drawn from one run of 24 layouts of one commit
	cd cli && $(SOAK) -v -run '^TestSoakLayouts$$'

.PHONY: bench
bench: ## the benchmarks, in benchstat's format
	$(GO) test -run '^$$' -bench . -benchtime 20x ./bench/session

.PHONY: layouts
layouts: ## effect of the linker's function order on the loops of rounds and codecs; needs an idle machine; Ctrl-C ends it early
	$(GO) run ./internal/test/layouts ./tensor ./codec

.PHONY: pr-report
pr-report: ## BASE=main: measure the effect of this change, as Markdown in pr-report/; see scripts/pr-report
	@scripts/pr-report

# Comments are ignored, because they contain the versions of the generators.
.PHONY: drift
drift: ## part of check-long: generated code is up to date
	@if command -v protoc >/dev/null && command -v grpc_python_plugin >/dev/null && command -v git >/dev/null; then \
		$(MAKE) --no-print-directory generate && git diff --exit-code -I '^//' -- internal/kernel transports/batched/federationpb python/ipcbench_worker/federation_pb2.py 'python/peers/*_pb2*.py'; \
	else $(call missing,protoc or its plugin for Python or git (Debian: protobuf-compiler protobuf-compiler-grpc git),generated code); fi

.PHONY: generate
generate: ## regenerate the protobuf code and the assembly loops; needs protoc (Debian: protobuf-compiler protobuf-compiler-grpc)
	internal/kernel/generate.sh
	transports/batched/generate.sh
	python/peers/generate.sh
