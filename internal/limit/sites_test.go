package limit_test

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"agenthost/internal/limit"
)

// Each row in the table holds: an input at a limit is read, and one byte, value or level more is
// the error that docs/security.md describes.
func TestEveryInput(t *testing.T) {
	for _, in := range limit.All() {
		t.Run(in.Name, func(t *testing.T) {
			if in.Bytes > 0 {
				own := limit.Input{Name: in.Name, Bytes: in.Bytes}
				checkReader(t, own, in.Bytes, "")
				checkReader(t, own, in.Bytes+1, fmt.Sprintf("%s exceeds the limit of %s", in.Name, limit.FormatBytes(in.Bytes)))
			}
			if in.Values == 0 {
				return
			}
			checkText(t, in, "["+strings.Repeat("0,", in.Values-1)+"0]", "")
			checkText(t, in, "["+strings.Repeat("0,", in.Values)+"0]", fmt.Sprintf("%s exceeds the limit of %d values", in.Name, in.Values))
			checkText(t, in, strings.Repeat("[", in.Depth)+strings.Repeat("]", in.Depth), "")
			checkText(t, in, strings.Repeat("[", in.Depth+1), fmt.Sprintf("%s exceeds the nesting limit of %d", in.Name, in.Depth))
		})
	}
}

func checkReader(t *testing.T, in limit.Input, size int, want string) {
	t.Helper()
	_, err := io.CopyN(io.Discard, in.NewReader(&countingReader{}), int64(size))
	if got := errorText(err); got != want {
		t.Errorf("reading %d bytes = %q, want %q", size, got, want)
	}
}

func checkText(t *testing.T, in limit.Input, text, want string) {
	t.Helper()
	if got := errorText(in.CheckJSON([]byte(text))); got != want {
		t.Errorf("CheckJSON of %.20s… (%d bytes) = %q, want %q", text, len(text), got, want)
	}
}

// reader matches a call that reads or decodes what another wrote.
var reader = regexp.MustCompile(`\b(io\.ReadAll|json\.NewDecoder|io\.LimitReader|http\.MaxBytesReader)\(`)

// unlisted are the files that read without a table row, with the reason.
var unlisted = map[string]string{
	"pkg/tool/declare/schema.go":               "decodes what this package has encoded",
	"pkg/tool/genai_schema.go":                 "decodes what this package has encoded",
	"cmd/agenthost/licenses.go":                "files in the program",
	"wing/chat/conversation/attach.go":         "a file that the person names, by maxAttached",
	"wing/chat/lineedit/history.go":            "its own file, by maxHistoryBytes",
	"cmd/agenthost/ready.go":                   "the answer of the person's own server, 64 KiB",
	"cmd/agenthost/serve_demo.go":              "the demo's own requests, 64 KiB",
	"wing/evaluation/evalreport/report.go":     "a temporary file of its own",
	"wing/evaluation/evalrun/answer_cache.go":  "a cache of its own, 512 KiB for each answer",
	"wing/evaluation/evalrun/baseline.go":      "a file of the person who runs the command",
	"wing/evaluation/evalrun/host.go":          "a file of its own, 64 MiB",
	"internal/number/decode.go":                "decodes what its caller has read",
	"wing/evaluation/optimize/config.go":       "a file of the person who runs the command, 1 MiB",
	"wing/programs/sandbox/confine_linux.go":   "orders of this program to itself",
	"wing/programs/sandbox/run_linux.go":       "the report of this program to itself, 64 KiB",
	"wing/programs/sandbox/supervise_linux.go": "orders of this program to itself",
	"wing/evaluation/eval/locator.go":          "decodes what its caller has read",
	"wing/gemini/lenient.go":                   "decodes an event that its caller has checked",
	"pkg/server/routes.go":                     "a request body, by the limit of its route",
	"wing/devui/builder.go":                    "a request body, by MaxBody",
	"wing/evaluation/evalweb/results.go":       "decodes what its caller has read",
	"pkg/session/event_json.go":                "decodes what its caller has read",
	"pkg/store/results.go":                     "stored results, 64 MiB decompressed",
	"pkg/store/revisions.go":                   "stored revisions, by the limits of reloads",
	"pkg/template/funcs.go":                    "a string of an expression, by its own limits",
	"internal/toolhttp/exchange.go":            "by max_response; tool/value.go counts its values",
	"wing/mcptool/decode.go":                   "decodes what its caller has read",
	"wing/mcptool/direct.go":                   "a body that connection.go bounds",
	"wing/mcptool/http_messages.go":            "a body that connection.go bounds",
}

// decoder matches a call that decodes what another wrote.
var decoder = regexp.MustCompile(`\b((json|yaml)\.Unmarshal|number\.Decode(Object)?)\(`)

// boundedDecoders are the files that decode what was read and counted elsewhere, with the
// place where it was.
var boundedDecoders = map[string]string{
	"wing/rollout/damage.go":                   "the row is bounded by store.MaxRolloutBytes",
	"pkg/store/outcome_days.go":                "a row of its own, by maxDayBytes",
	"wing/rollout/state.go":                    "what this package has encoded, 64 KiB in the store",
	"cmd/agenthost/ready.go":                   "the answer of the person's own server, 64 KiB",
	"wing/evaluation/evalrun/answer_cache.go":  "a cache of its own, 512 KiB for each answer",
	"wing/evaluation/evalrun/final_state.go":   "what it encodes itself",
	"cmd/agenthost/lsp_commands.go":            "an argument in a message of the person's editor, maxMessage",
	"wing/lsp/rpc.go":                          "a message of the person's editor, maxMessage",
	"internal/number/numbertest/numbertest.go": "a constant",
	"pkg/protocol/body.go":                     "a request body that the server has read, MaxBody",
	"wing/aguiserver/input.go":                 "a part of a request body that the server has read, MaxBody",
	"wing/a2aserver/a2apush/store.go":          "stored rows of its own, 8 bounded configurations",
	"wing/a2aserver/a2aserver.go":              "a request body that the server has read, MaxBody",
	"wing/openaiserver/responses.go":           "a part of a request body that the server has read, MaxBody",
	"wing/openaiserver/request.go":             "a request body that the server has read, MaxBody",
	"wing/programs/sandbox/run_linux.go":       "the report of this program to itself, 64 KiB",
	"internal/toolstub/simulate.go":            "the text of an answer of a model",
	"wing/connection/pending.go":               "stored grants of its own",
	"wing/connection/registration.go":          "answers that token.go reads, and stored grants of its own",
	"wing/connection/stored_tokens.go":         "stored grants of its own",
	"wing/evaluation/eval/hosted.go":           "an answer that vertex_eval.go of wing/gemini reads",
	"wing/evaluation/eval/json.go":             "what its caller has read",
	"wing/evaluation/eval/read.go":             "what its caller has read",
	"wing/anthropic/anthropic.go":              "an error that service.go reads",
	"wing/anthropic/response.go":               "an answer that service.go reads",
	"wing/anthropic/stream.go":                 "an event that service.go reads",
	"wing/gemini/lenient.go":                   "an event that its caller has checked",
	"internal/modelapi/lenient.go":             "a part of an answer that service.go reads",
	"wing/ollama/request.go":                   "a part of an answer that service.go reads",
	"wing/ollama/response.go":                  "an answer that service.go reads",
	"internal/modelapi/declarations.go":        "what it encodes itself",
	"wing/openai/responses.go":                 "an answer that service.go reads",
	"wing/openai/wire.go":                      "an answer that service.go reads",
	"wing/openai/response.go":                  "an error that service.go reads",
	"internal/modelapi/google.go":              "an error that service.go reads",
	"pkg/provider/record.go":                   "what it encodes itself",
	"wing/chat/lineedit/history.go":            "lines of its own file, by maxHistoryBytes",
	"internal/modelapi/token_count.go":         "a part of an answer that service.go reads",
	"wing/devui/builder_merge.go":              "files of a request body, by MaxBody",
	"wing/evaluation/evalweb/cases.go":         "what it encodes itself",
	"internal/jsonbody/body.go":                "a field of a request body",
	"internal/servertest/env.go":               "a constant of a test",
	"internal/servertest/openapi.go":           "a constant of a test",
	"wing/evaluation/evalweb/body.go":          "a field of a request body",
	"wing/live/liveweb/query.go":               "a parameter of a URL, by the limit of headers",
	"pkg/server/openapi.go":                    "a file in the program",
	"pkg/session/event_json.go":                "what its caller has read",
	"pkg/store/artifacts.go":                   "a stored part",
	"pkg/store/dirstore/dirstore.go":           "metadata of its own",
	"wing/vertex/vertexstore/error.go":         "an error that client.go reads",
	"wing/vertex/vertexstore/event_log.go":     "a page that client.go reads",
	"wing/vertex/vertexstore/events.go":        "a page that client.go reads",
	"wing/vertex/vertexstore/memory_bank.go":   "a page that client.go reads",
	"wing/vertex/vertexstore/rag_memory.go":    "a page that client.go reads",
	"wing/vertex/vertexstore/session_rows.go":  "a page that client.go reads",
	"pkg/tool/declare/func.go":                 "arguments of a call in an answer of a model",
	"pkg/server/feedback.go":                   "a number in a body that ReadBody has bounded",
	"wing/a2aagent/message.go":                 "a question of its own in an event",
	"wing/mcptool/decode.go":                   "what its caller has read",
	"wing/mcptool/direct.go":                   "members that the message filter has bounded, and an error's body",
	"wing/mcptool/tasks.go":                    "a task of its own in an event",
	"wing/mcptool/task_messages.go":            "a result that the message filter has bounded",
	"wing/a2aserver/a2adirect/a2adirect.go":    "a part of a request body that the server has read, MaxBody",
	"wing/mcpserver/mcpdirect/mcpdirect.go":    "a capability of a request that ReadJSON has bounded",
	"wing/mcpserver/rounds.go":                 "answers in a body that ReadJSON has bounded",
	"wing/mcptool/rounds.go":                   "a result that the message filter has bounded, and rounds of its own",
}

// All code that reads from outside uses a table row, or is on the list above with its reason; and
// the list has no unneeded file.
func TestReadersUseTheTable(t *testing.T) {
	checkSites(t, reader, unlisted)
}

// All code that decodes data from outside uses a table row, or is on a list with the place that
// bounds what it decodes.
func TestDecodersUseTheTable(t *testing.T) {
	checkSites(t, decoder, boundedDecoders)
}

func checkSites(t *testing.T, pattern *regexp.Regexp, reasons map[string]string) {
	t.Helper()
	needless := maps.Clone(reasons)
	for file, text := range ownSources(t) {
		if !pattern.Match(text) || bytes.Contains(text, []byte(`"agenthost/internal/limit"`)) {
			continue
		}
		if reasons[file] == "" {
			t.Errorf("%s matches %s without a row of internal/limit: use limit.X.ReadAll, or list the file with its reason", file, pattern)
		}
		delete(needless, file)
	}
	for _, file := range slices.Sorted(maps.Keys(needless)) {
		t.Errorf("%s is on the list and needs not be", file)
	}
}

// uncounted are the large inputs without a value limit, with the reason.
var uncounted = map[string]string{
	"web page":                     "is not JSON",
	"file of an app":               "a document in it is counted",
	"skills of a tool":             "are not decoded",
	"files that a program returns": "are not decoded",
}

// A row above 1 MiB has a value limit, or is on the list with its reason: a byte limit does not
// limit memory.
func TestLargeInputsAreCounted(t *testing.T) {
	needless := maps.Clone(uncounted)
	for _, in := range limit.All() {
		if in.Bytes <= 1<<20 || in.Values > 0 {
			continue
		}
		if uncounted[in.Name] == "" {
			t.Errorf("%s of %s has no limit of values", in.Name, limit.FormatBytes(in.Bytes))
		}
		delete(needless, in.Name)
	}
	for _, name := range slices.Sorted(maps.Keys(needless)) {
		t.Errorf("%s is on the list and needs not be", name)
	}
}

// Code outside the table uses each row, and All has each row.
func TestRowsAreUsed(t *testing.T) {
	var all bytes.Buffer
	for _, text := range ownSources(t) {
		all.Write(text)
	}
	parsed, err := parser.ParseFile(token.NewFileSet(), "inputs.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	rows := 0
	ast.Inspect(parsed, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok || len(spec.Values) != 1 {
			return true
		}
		if lit, ok := spec.Values[0].(*ast.CompositeLit); ok && fmt.Sprint(lit.Type) == "Input" {
			rows++
			if !bytes.Contains(all.Bytes(), []byte("limit."+spec.Names[0].Name)) {
				t.Errorf("no code uses limit.%s", spec.Names[0].Name)
			}
		}
		return true
	})
	if rows != len(limit.All()) {
		t.Errorf("the table declares %d inputs, and All returns %d", rows, len(limit.All()))
	}
}

// ownSources returns the program's code, without tests, test servers and this package.
func ownSources(t *testing.T) map[string][]byte {
	t.Helper()
	foreign := regexp.MustCompile(`^internal/(fake|testenv|testdb|house|limit)/|^wing/adk/conformance/`)
	files := map[string][]byte{}
	for _, top := range []string{"cmd", "internal", "pkg", "wing"} {
		err := filepath.WalkDir(filepath.Join("../..", top), func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			file, err := filepath.Rel("../..", path)
			if err != nil || foreign.MatchString(filepath.ToSlash(file)) {
				return err
			}
			files[filepath.ToSlash(file)], err = os.ReadFile(path)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return files
}
