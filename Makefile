# make run serves the example apps; make test runs all checks. Both install what they
# need.

GO      ?= go
BIN     := bin/agenthost
# Only the race detector needs a C compiler.
NOCGO   := CGO_ENABLED=0
# The version and commit of the binary, from git unless given. Without git, the binary
# uses the build information that Go records.
VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null)
COMMIT  ?= $(shell git rev-parse --short=12 HEAD 2>/dev/null)
# The address of the repository, which release files name. Without it, the module path.
SOURCE  ?=
# The private key that signs a release, PEM or the name of a file with it. Without it there is no signature.
DIST_KEY ?=
# Strip symbols and build paths, and leave out gRPC's trace pages, a dependency of
# Google's credentials library.
SLIM    := -trimpath -tags=grpcnotrace -ldflags='-s -w -X main.release=$(VERSION) -X main.commit=$(COMMIT)'
TOOLS   := tools/go.mod
# The nested modules that import this one: a new dependency here changes theirs.
MODULES := qa qa/bench qa/gcscompat qa/kubecompat qa/openaicompat examples/extend
# go test that also prints skipped tests.
GOTEST  := $(CURDIR)/bin/gotest
# The random seed of proof and probes.
SEED    ?= 1
# The proofs or probes to run, a regular expression.
RUN     ?=
CORPUS  ?= $(abspath ../shared/corpus)
export AGENTHOST_CORPUS ?= $(CORPUS)

.PHONY: all help build run test interpreters unit race qa-test lint fmt fmt-check generate film fresh apps eval examples-test gcs-test kube-test openai-test alerts ui-test vscode mcp-suite acp-clients fuzz bench bench-stores bench-http bench-mcp bench-openai bench-agui bench-a2a bench-streams bench-outcomes bench-replicas proof proof-full probes dist docs dist-test module cover clean

all: test ## same as test

help: ## print this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

build: ## build bin/agenthost
	$(NOCGO) $(GO) build $(SLIM) -o $(BIN) ./cmd/agenthost

run: build ## build, then serve the example apps on the scripted model
	$(BIN) serve apps --auto-create-session --demo --dev

test: ## run all checks: format, lint, tests, race detector, apps, other modules; starts the servers that are missing
	tools/test.sh fmt-check lint interpreters unit race apps qa-test bench-test examples-test gcs-test kube-test openai-test dist-test

interpreters: ## install Python for the tests of the code executor wasi (48 MB, requires npm)
	tools/install-python.sh

.PHONY: gotest bin/proof
gotest:
	cd qa && $(NOCGO) $(GO) build -o $(GOTEST) ./gotest

unit: gotest ## run tests without the race detector
	$(NOCGO) $(GOTEST) -timeout 20m -shuffle=on ./...

# TestHostileAnswers counts allocated bytes on one goroutine: unit runs it, and with the race
# detector it takes five minutes.
race: gotest ## run tests with the race detector
	@command -v $(CC) >/dev/null || { echo 'SKIPPED: race detector: no C compiler'; exit 0; }; \
	set -x; CGO_ENABLED=1 $(GOTEST) -race -timeout 20m -shuffle=on -skip '^TestHostileAnswers$$' ./pkg/session ./pkg/connection ./wing/connection/... ./pkg/store/... ./wing/vertex/... ./wing/bucketstore ./wing/adk/adkdb ./pkg/runtime ./internal/agentconfig ./pkg/loader ./pkg/server ./pkg/provider ./pkg/protocol/... ./internal/modelapi ./internal/modeltest ./wing/gemini ./wing/openai ./wing/anthropic ./wing/ollama ./wing/live/... ./wing/devui ./wing/chatpage ./wing/mcpserver ./wing/openaiserver ./wing/acpserver ./wing/aguiserver ./wing/a2aagent ./wing/a2aserver ./wing/operator ./wing/outcomes ./wing/replay ./wing/revisions ./wing/rollout ./wing/why ./wing/apptest/testweb ./wing/evaluation/evalweb

lint: ## check that the modules are tidy, run go vet, the analyzers of tools/lint and staticcheck
	for module in . $(MODULES) tools/release; do (cd $$module && $(GO) mod tidy -diff) || exit 1; done
	$(NOCGO) $(GO) vet ./...
	cd qa && $(NOCGO) $(GO) vet ./...
	cd tools && $(NOCGO) $(GO) build -o ../bin/lint ./lint
	$(NOCGO) $(GO) vet -vettool=$(CURDIR)/bin/lint ./...
	cd qa && $(NOCGO) $(GO) vet -vettool=$(CURDIR)/bin/lint ./...
	cd tools/release && $(NOCGO) $(GO) vet ./... && $(NOCGO) $(GO) vet -vettool=$(CURDIR)/bin/lint ./...
	$(NOCGO) $(GO) tool -modfile=$(TOOLS) staticcheck ./...
	cd qa && $(NOCGO) $(GO) tool -modfile=../$(TOOLS) staticcheck ./...
	cd tools/release && $(NOCGO) $(GO) tool -modfile=../go.mod staticcheck ./...

fmt: ## format all Go files
	$(GO) tool -modfile=$(TOOLS) gofumpt -w *.go cmd internal pkg wing qa tools examples

fmt-check:
	@out=$$($(GO) tool -modfile=$(TOOLS) gofumpt -l *.go cmd internal pkg wing qa tools examples); \
	if [ -n "$$out" ]; then echo "not formatted, run make fmt:"; echo "$$out"; exit 1; fi

generate: ## generate schemas, reference, usage texts and licences
	$(NOCGO) $(GO) test ./pkg/loader -run 'TestSchemaFilesUpToDate' -update
	$(NOCGO) $(GO) test ./cmd/agenthost -run 'TestUsageFresh|TestReferenceFresh|TestHostSchemaFresh|TestEditorSettingsFresh|TestLicensesFresh' -update

film: ## record the films of the README
	cd qa && $(NOCGO) $(GO) test ./film -run 'Fresh$$' -update

apps: build ## check the example apps and run their tests
	$(BIN) check apps
	$(BIN) test apps
	$(MAKE) eval

eval: build ## evaluate the example apps on all their eval sets, offline
	@failed=0; for app in apps/*/; do $(BIN) eval $$app --results bin/evals || failed=1; done; exit $$failed

qa-test: gotest ## test the proofs and the film (separate module)
	cd qa && $(NOCGO) $(GOTEST) -timeout 20m -shuffle=on ./...

bench-test: gotest
	cd qa/bench && $(NOCGO) $(GO) vet ./... && $(NOCGO) $(GOTEST) ./...
	@command -v $(CC) >/dev/null || { echo 'SKIPPED: floors of qa/bench/stores: no C compiler'; exit 0; }; \
	set -x; cd qa/bench && CGO_ENABLED=1 $(GOTEST) -run Floor ./stores

examples-test: gotest ## build and run the example of a Go program with its own kinds (separate module)
	cd examples/extend && $(NOCGO) $(GO) vet ./... && $(NOCGO) $(GOTEST) ./...

gcs-test: gotest ## test artifacts on a third-party fake of Google Cloud Storage (separate module)
	cd qa/gcscompat && $(NOCGO) $(GO) vet ./... && $(NOCGO) $(GOTEST) ./...

kube-test: gotest ## validate the manifests in deploy/ with Kubernetes' own types (separate module)
	cd qa/kubecompat && $(NOCGO) $(GO) vet ./... && $(NOCGO) $(GOTEST) ./...

alerts: ## check the alert rules in deploy/ with promtool, and run their tests; downloads promtool from Debian if it is missing
	tools/alerts.sh

openai-test: gotest ## run OpenAI's Go client against apps as models (separate module)
	cd qa/openaicompat && $(NOCGO) $(GO) vet ./... && $(NOCGO) $(GOTEST) ./...

bench: ## benchmark against adk-go and print ratios
	cd qa/bench && $(NOCGO) $(GO) run .

bench-live: ## benchmark forwarding the audio of live conversations against a bare relay and adk-go
	cd qa/bench && $(NOCGO) $(GO) run ./live

bench-stores: ## benchmark the session stores only; needs a C compiler for adk-go's best setup
	cd qa/bench && CGO_ENABLED=1 $(GO) run ./stores

bin/proof: # the folder of the run stays the root of the repository
	cd qa && $(NOCGO) $(GO) build -o ../bin/proof ./proof

proof: build bin/proof ## verify the guarantees under load and faults, print a table
	bin/proof -bin $(BIN) -seed $(SEED) -run '$(RUN)'

proof-full: build bin/proof ## run proof in its long form, which takes hours
	bin/proof -bin $(BIN) -seed $(SEED) -run '$(RUN)' -full

probes: build bin/proof ## count violations of session store guarantees, print a table of zeros
	bin/proof probes -bin $(BIN) -seed $(SEED) -run '$(RUN)'

bench-http: ## benchmark both HTTP servers in separate processes, about 20 minutes
	cd qa/bench && CGO_ENABLED=1 $(GO) run ./http

bench-mcp: ## benchmark a turn as a call of an MCP tool against /run, and calls of other servers' tools
	cd qa && $(NOCGO) $(GO) test -run '^$$' -bench ServerCall -benchtime 20000x -cpu 1 ./mcpsuite
	$(NOCGO) $(GO) test -run '^$$' -bench Call -benchtime 20000x -cpu 1 ./wing/mcptool

bench-a2a: ## benchmark a turn as a message of A2A against /run and /run_sse, and against adk-go's A2A server
	cd qa/bench && CGO_ENABLED=1 $(GO) run ./http -run a2a
	$(NOCGO) $(GO) test -run '^$$' -bench Turn -benchtime 20000x -cpu 1 ./wing/a2aserver

bench-agui: ## benchmark a turn as a run of an AG-UI client against /run and /run_sse
	$(NOCGO) $(GO) test -run '^$$' -bench 'Turn/(run|message|thread)' -benchtime 20000x -cpu 1 ./wing/aguiserver
	$(NOCGO) $(GO) test -run '^$$' -bench Turn/sqlite -benchtime 5000x -cpu 1 ./wing/aguiserver

bench-openai: ## benchmark a turn as a completion and as a response of OpenAI's API against /run
	$(NOCGO) $(GO) test -run '^$$' -bench 'Turn/(run|named|transcript|response)' -benchtime 20000x -cpu 1 ./wing/openaiserver
	$(NOCGO) $(GO) test -run '^$$' -bench Turn/sqlite -benchtime 5000x -cpu 1 ./wing/openaiserver

bench-streams: build ## print the memory with 5000 open streams over each protocol, 64 over A2A, also as in a container of 300 MB; needs Linux
	cd qa && $(NOCGO) $(GO) run ./streams -bin ../$(BIN) && $(NOCGO) $(GO) run ./streams -bin ../$(BIN) -container 300

bench-outcomes: ## benchmark the processor time of turns with and without outcomes, and of /run
	$(NOCGO) $(GO) test -run '^$$' -bench Outcomes -benchtime 1500x -cpu 1 ./pkg/runtime
	$(NOCGO) $(GO) test -run '^$$' -bench Turn/run -benchtime 20000x -cpu 1 ./wing/openaiserver

bench-replicas: build bin/proof ## benchmark turns with 1, 2 and 3 replicas on PostgreSQL
	bin/proof replicas -bin $(BIN) -seed $(SEED)

ui-test: build ## test the page, the official Dev UI and ADK's own client in a browser; requires npm, installs the rest (Chromium as root)
	$(NOCGO) $(GO) test -c -o bin/fakelive.test ./ui-test/fakelive
	$(NOCGO) $(GO) test -c -o bin/fakeauth.test ./ui-test/fakeauth
	rm -rf bin/site
	cd tools && $(NOCGO) $(GO) run ./site -root .. -out ../bin/site -version v1 && $(NOCGO) $(GO) run ./site -root .. -out ../bin/site -version v2
	ui-test/run.sh

vscode: ## package the VS Code extension as editors/vscode/agenthost.vsix; requires npm
	cd editors/vscode && npm ci --ignore-scripts --no-audit --no-fund && npm run -s package

mcp-suite: build ## run the public MCP conformance suite on agenthost as a client and as a server, and MCP's official clients on it; requires npm
	cd qa && $(NOCGO) $(GO) build -o ../bin/mcpsuite ./mcpsuite
	AGENTHOST=$(abspath $(BIN)) MCPSUITE=$(abspath bin/mcpsuite) qa/mcpsuite/run.sh

acp-clients: build ## run ACP's official client and acpx on apps; requires npm
	$(NOCGO) $(GO) test -c -o bin/fakeauth.test ./ui-test/fakeauth
	AGENTHOST=$(abspath $(BIN)) qa/acpclients/run.sh

fuzz: ## run each fuzz target for 10 seconds
	@for pkg in $$($(GO) list ./pkg/... ./wing/... ./internal/...); do \
	  for target in $$($(GO) test -list '^Fuzz' $$pkg | grep '^Fuzz'); do \
	    echo "$$pkg $$target"; $(NOCGO) $(GO) test $$pkg -run '^$$' -fuzz "^$$target\$$" -fuzztime 10s || exit 1; \
	  done; done

dist: ## build a release in dist/: archives, .deb and .rpm, a container image, a Homebrew formula, an install script, SBOMs, checksums
	cd tools/release && $(NOCGO) $(GO) build -o ../../bin/release .
	bin/release -version '$(VERSION)' -source '$(SOURCE)'

docs: ## build the documentation as a website in dist/site, with a search, versions and llms.txt
	cd tools && $(NOCGO) $(GO) run ./site -root .. -out ../dist/site -version '$(or $(VERSION),latest)' -source '$(SOURCE)'

dist-test: ## test the documentation's site and the release tool, and install what it builds in empty roots (as root): each serves an agent
	cd tools/release && $(NOCGO) $(GO) test -v -count=1 -timeout 15m ./...
	cd tools && $(NOCGO) $(GO) test -count=1 ./site

# The path is an argument named PATH, which hides the search path of commands here.
module: ## change the module path everywhere: make module PATH=github.com/you/agenthost
	@/bin/sh tools/module.sh '$(PATH)'

cover: ## print test coverage by package
	$(NOCGO) $(GO) test -cover ./pkg/... ./wing/... | awk '{print $$2, $$5}'

clean: ## remove build output
	rm -rf bin dist
