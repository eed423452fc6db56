package runtime_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"regexp"
	"strings"
	"testing"

	"google.golang.org/genai"

	"agenthost/pkg/loader"
	"agenthost/pkg/model"
	"agenthost/pkg/provider"
	"agenthost/pkg/runtime"
	"agenthost/pkg/tool"
)

// An app from a folder of YAML with a tool and a callback of the program's own,
// and a turn of it.
func Example_embedded() {
	type amount struct{ Net int }
	vat, err := tool.FromFunc("vat", "The tax on an amount.", func(_ context.Context, _ *tool.Call, in amount) (int, error) {
		return in.Net * 21 / 100, nil
	})
	if err != nil {
		log.Fatal(err)
	}
	greet := func(_ context.Context, m *runtime.CallbackContext) (*genai.Content, error) {
		m.State.Set("name", "Ana")
		return nil, nil // no answer: the agent itself runs
	}
	kinds := loader.Kinds{Models: provider.Kinds(), Agents: loader.AgentKinds()}
	app, problems := loader.New(kinds, &loader.Options{Functions: loader.Functions{
		Tools:     map[string]tool.Tool{"till.vat": vat},
		Callbacks: map[string]runtime.Callbacks{"till.greet": {BeforeAgent: []runtime.AgentFunc{greet}}},
	}}).Load(context.Background(), "testdata/examples/till")
	if app == nil {
		log.Fatal(problems)
	}
	host, err := runtime.InMemory(app)
	if err != nil {
		log.Fatal(err)
	}
	defer host.Close()
	ask := &runtime.RunRequest{App: "till", UserID: "ana", SessionID: "s1", CreateSession: true, Message: model.UserText("VAT of 200?")}
	for ev, err := range host.Run(context.Background(), ask) {
		fmt.Println(ev.Text(), err)
	}
	// Output:
	// <nil>
	//  <nil>
	//  <nil>
	// That is 42, Ana. <nil>
}

// TestEmbedding: docs/embedding.md shows the example and its files as they are,
// and the example has no more than 30 lines.
func TestEmbedding(t *testing.T) {
	page := readText(t, "../../docs/embedding.md")
	source := readText(t, "example_embedded_test.go")
	body := regexp.MustCompile(`(?s)func Example_embedded\(\) \{\n(.*?)\t// Output:`).FindStringSubmatch(source)[1]
	if n := strings.Count(body, "\n"); n > 30 {
		t.Errorf("the example has %d lines, want at most 30", n)
	}
	shown := map[string]string{"the example": strings.ReplaceAll("\n"+body, "\n\t", "\n")}
	for _, name := range []string{"root_agent.yaml", "app.yaml", "demo.script.yaml"} {
		shown[name] = readText(t, "testdata/examples/till/"+name)
	}
	for name, text := range shown {
		if !strings.Contains(page, strings.TrimSpace(text)) {
			t.Errorf("docs/embedding.md does not show %s as it is:\n%s", name, text)
		}
	}
}

func readText(t *testing.T, file string) string {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}
