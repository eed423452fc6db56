# agenthost: two commands matter. make run serves the example apps; make test
# runs everything. Both set up what they need.

GO      ?= go
BIN     := bin/agenthost
# The inner loop needs no C compiler; only the race detector does.
NOCGO   := CGO_ENABLED=0
# What the binary says it is; without git it says what Go recorded. Both may be given.
VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null)
COMMIT  ?= $(shell git rev-parse --short=12 HEAD 2>/dev/null)
# What nobody asks a binary for: symbols, the builder's folders, and the pages of
# gRPC's traces, which Google's library for credentials would bring along.
SLIM    := -trimpath -tags=grpcnotrace -ldflags='-s -w -X main.release=$(VERSION) -X main.commit=$(COMMIT)'
TOOLS   := tools/go.mod
# go test that also prints which tests were skipped.
GOTEST  := $(CURDIR)/bin/gotest
# What proof and probes leave to chance follows from this number.
SEED    ?= 1
CORPUS  ?= $(abspath ../shared/corpus)
export AGENTHOST_CORPUS ?= $(CORPUS)

.PHONY: all help build run test pgbouncer unit race lint fmt fmt-check generate film fresh apps gcs-test kube-test ui-test fuzz bench bench-stores bench-http bench-replicas proof proof-full probes dist module cover clean

all: test ## the same as test

help: ## print this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

build: ## build bin/agenthost
	$(NOCGO) $(GO) build $(SLIM) -o $(BIN) ./cmd/agenthost

run: build ## build, then serve the example apps on the scripted model
	$(BIN) serve apps --auto-create-session --demo --dev

test: fmt-check lint pgbouncer unit race apps bench-test gcs-test kube-test ## everything: format, lint, tests, race detector, apps, bench module

pgbouncer: ## install PgBouncer for the tests, as root on Debian
	tools/install-pgbouncer.sh

.PHONY: gotest
gotest:
	$(NOCGO) $(GO) build -o $(GOTEST) ./internal/gotest

unit: gotest ## tests, without the race detector
	$(NOCGO) $(GOTEST) -shuffle=on ./...

race: gotest ## tests under the race detector
	CGO_ENABLED=1 $(GOTEST) -race -shuffle=on ./pkg/session ./pkg/store ./pkg/adkdb ./pkg/runtime ./pkg/loader ./pkg/server ./pkg/provider

lint: ## go vet, staticcheck, a tidy module
	$(NOCGO) $(GO) vet ./...
	$(NOCGO) $(GO) tool -modfile=$(TOOLS) staticcheck ./...
	$(GO) mod tidy -diff

fmt: ## format all Go files
	$(GO) tool -modfile=$(TOOLS) gofumpt -w cmd internal pkg bench

fmt-check:
	@out=$$($(GO) tool -modfile=$(TOOLS) gofumpt -l cmd internal pkg bench); \
	if [ -n "$$out" ]; then echo "not formatted (make fmt repairs it):"; echo "$$out"; exit 1; fi

generate: ## write schemas, reference, usage texts and licences
	$(NOCGO) $(GO) test ./pkg/loader -run 'TestSchemaFilesUpToDate' -update
	$(NOCGO) $(GO) test ./cmd/agenthost -run 'TestUsageFresh|TestReferenceFresh|TestHostSchemaFresh|TestLicensesFresh' -update

film: ## play the film of the README anew, and draw it
	$(NOCGO) $(GO) test ./cmd/agenthost -run 'TestFilmFresh' -update

apps: build ## check the example apps, and run their tests
	$(BIN) check apps
	$(BIN) test apps

bench-test: gotest
	cd bench && $(GO) mod tidy -diff && $(NOCGO) $(GO) vet ./... && $(NOCGO) $(GOTEST) ./...

gcs-test: gotest ## artifacts on other people's fake of Google Cloud Storage, a module of its own
	cd internal/gcscompat && $(GO) mod tidy -diff && $(NOCGO) $(GO) vet ./... && $(NOCGO) $(GOTEST) ./...

kube-test: gotest ## the manifests of deploy/ by Kubernetes' own types, a module of its own
	cd internal/kubecompat && $(GO) mod tidy -diff && $(NOCGO) $(GO) vet ./... && $(NOCGO) $(GOTEST) ./...

bench: ## measure against adk-go, and print ratios
	cd bench && $(NOCGO) $(GO) run .

bench-stores: ## the same for the session stores alone; needs a C compiler, for adk-go's best setup
	cd bench && CGO_ENABLED=1 $(GO) run ./stores

proof: build ## print a table of what is promised and shown
	$(NOCGO) $(GO) run ./internal/proof -bin $(BIN) -seed $(SEED)

proof-full: build ## the same in its long form, which takes hours
	$(NOCGO) $(GO) run ./internal/proof -bin $(BIN) -seed $(SEED) -full

probes: build ## print a table of what a session store must never do, which must show zeros
	$(NOCGO) $(GO) run ./internal/proof probes -bin $(BIN) -seed $(SEED)

bench-http: ## the same for both HTTP servers, each a process of its own; some twenty minutes
	cd bench && CGO_ENABLED=1 $(GO) run ./http

bench-replicas: build ## measure turns with 1, 2 and 3 replicas on PostgreSQL
	$(NOCGO) $(GO) run ./internal/proof replicas -bin $(BIN) -seed $(SEED)

ui-test: build ## the page and the official Dev UI in a browser, and ADK's own client; sets up what it needs but npm, and as root Chromium too
	ui-test/run.sh

fuzz: ## let each fuzz target run for ten seconds
	@for pkg in $$($(GO) list ./pkg/...); do \
	  for target in $$($(GO) test -list '^Fuzz' $$pkg | grep '^Fuzz'); do \
	    echo "$$pkg $$target"; $(NOCGO) $(GO) test $$pkg -run '^$$' -fuzz "^$$target\$$" -fuzztime 10s || exit 1; \
	  done; done

dist: ## build the archives of a release for six platforms, with checksums and SBOMs, in dist/
	$(NOCGO) $(GO) run ./internal/dist -version '$(VERSION)'

# The path is an argument named PATH, which hides the search path of commands here.
module: ## change the module path everywhere: make module PATH=github.com/you/agenthost
	@/bin/sh tools/module.sh '$(PATH)'

cover: ## print test coverage by package
	$(NOCGO) $(GO) test -cover ./pkg/... | awk '{print $$2, $$5}'

clean: ## remove what was built
	rm -rf bin dist
