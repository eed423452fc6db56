package modeltest_test

import (
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"

	"google.golang.org/genai"

	"agenthost/pkg/runtime"
	"agenthost/pkg/session"
	"agenthost/pkg/spec"
	"agenthost/pkg/tool"
	"agenthost/pkg/tool/httptool"
)

// Random integers and decimals keep all their digits from each service's answer through an http
// tool (path, query and body) and its JSON response to the stored events and the next request. The
// control decodes the same numbers to float64: some must change.
func TestRandomNumbers(t *testing.T) {
	count := 60
	if *fullRun {
		count = 3000
	}
	for _, s := range suiteSubjects() {
		if s.local {
			continue
		}
		t.Run(s.name, func(t *testing.T) {
			random := rand.New(rand.NewPCG(*seed, 29))
			var changed, control int
			for sent := 0; sent < count; sent += 20 {
				numbers := makeNumbers(random, 20)
				changed += sendNumbers(t, s, numbers)
				control += countRounded(t, numbers)
			}
			if changed != 0 || control == 0 {
				t.Errorf("%d numbers changed, and %d of the control, want 0 and some", changed, control)
			}
			t.Logf("shown: %s: %d numbers, %d changed; control, decoded to float64: %d changed", s.title, count, changed, control)
		})
	}
}

// makeNumbers returns integers and decimals with 1 to 40 digits.
func makeNumbers(random *rand.Rand, n int) []string {
	var numbers []string
	for range n {
		text := fmt.Sprint(1 + random.IntN(9))
		for range random.IntN(20) {
			text += fmt.Sprint(random.IntN(10))
		}
		if random.IntN(2) == 0 {
			text += "."
			for range random.IntN(19) {
				text += fmt.Sprint(random.IntN(10))
			}
			text += fmt.Sprint(1 + random.IntN(9)) // a float has no zeros at its end
		}
		if random.IntN(3) == 0 {
			text = "-" + text
		}
		numbers = append(numbers, text)
	}
	return numbers
}

// sendNumbers runs a turn whose call has the numbers, and counts those that are missing at
// the tool's server, in the stored events and in the next request.
func sendNumbers(t *testing.T, s *suiteSubject, numbers []string) (missing int) {
	list := "[" + strings.Join(numbers, ",") + "]"
	args, err := session.DecodeMap([]byte(`{"first":` + numbers[0] + `,"list":` + list + `}`))
	if err != nil {
		t.Fatal(err)
	}
	var received string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		received = r.URL.Path + " " + strings.Join(r.URL.Query()["n"], " ") + " " + string(body)
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(body)
	}))
	defer server.Close()
	send := buildHTTPTool(t, "name: send\ndescription: Sends.\nmethod: POST\nurl: \""+server.URL+"/{args.first}\"\nquery: {n: \"{args.list}\"}\n"+
		"params: {first: number, list: [number]}\nbody: {list: \"{args.list}\"}")
	llm, w := s.build(t, suiteReply{calls: []*genai.FunctionCall{{ID: "call_n", Name: "send", Args: args}}}, suiteReply{text: []string{"done"}})
	a := newSuiteApp(t, llm, runtime.LLMOptions{Tools: []tool.Tool{send}})
	if events, err := a.runTurn(t.Context(), "send", nil); err != nil {
		t.Fatalf("Run() = %q, %v", events, err)
	}
	stored, err := a.store.Sessions.Get(t.Context(), a.key, nil)
	if err != nil {
		t.Fatal(err)
	}
	events, err := stored.MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(received, "/"+numbers[0]+" ") {
		missing++
	}
	return missing + countMissing(received, numbers) + countMissing(string(events), numbers) + countMissing(w.lastRequest(t), numbers)
}

// numberText matches a number.
var numberText = regexp.MustCompile(`-?[0-9][0-9.eE+-]*`)

// countMissing counts the numbers that text does not have twice with all their digits.
func countMissing(text string, numbers []string) (missing int) {
	found := map[string]int{}
	for _, n := range numberText.FindAllString(text, -1) {
		found[n]++
	}
	for _, n := range numbers {
		if found[n] < 2 {
			missing++
		}
	}
	return missing
}

// countRounded counts the numbers that encoding/json changes.
func countRounded(t *testing.T, numbers []string) (rounded int) {
	for _, n := range numbers {
		var v any
		if err := json.Unmarshal([]byte(n), &v); err != nil {
			t.Fatal(err)
		}
		if back, err := json.Marshal(v); err != nil || string(back) != n {
			rounded++
		}
	}
	return rounded
}

// buildHTTPTool builds an http tool.
func buildHTTPTool(t *testing.T, yaml string) tool.Tool {
	t.Helper()
	kind, ok := httptool.Kinds().Lookup("http")
	if !ok {
		t.Fatal("no kind http")
	}
	n, ds := spec.Parse("tool.yaml", []byte(yaml))
	if err := ds.Err(); err != nil {
		t.Fatal(err)
	}
	plan, ds := kind.Decode(n)
	if err := ds.Err(); err != nil {
		t.Fatal(err)
	}
	set, err := plan.Build(t.Context(), tool.Env{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = set.Close() })
	tools, err := set.Tools(t.Context())
	if err != nil || len(tools) != 1 {
		t.Fatalf("Tools() = %v, %v, want one tool", tools, err)
	}
	return tools[0]
}
