package agenthost_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"regexp"
	"strings"
	"testing"

	"google.golang.org/genai"

	"agenthost"
)

// An app from a YAML folder with the program's own tool and callback, and one turn.
func Example() {
	ctx := context.Background()
	type amount struct{ Net int }
	vat, err := agenthost.NewTool("vat", "The tax on an amount.", func(_ context.Context, _ *agenthost.ToolCall, in amount) (int, error) {
		return in.Net * 21 / 100, nil
	})
	if err != nil {
		log.Fatal(err)
	}
	greet := func(_ context.Context, m *agenthost.CallbackContext) (*genai.Content, error) {
		m.State.Set("name", "Ana")
		return nil, nil // no answer: the agent itself runs
	}
	host, err := agenthost.Open(ctx, &agenthost.Options{
		Folders: []string{"testdata/till"}, Kinds: agenthost.StandardKinds(), Problems: os.Stderr,
		Functions: agenthost.Functions{
			Tools:     map[string]agenthost.Tool{"till.vat": vat},
			Callbacks: map[string]agenthost.Callbacks{"till.greet": {BeforeAgent: []agenthost.AgentFunc{greet}}},
		},
	})
	if err != nil {
		log.Fatal(err)
	}
	defer host.Close()
	ask := &agenthost.RunRequest{App: "till", UserID: "ana", SessionID: "s1", CreateSession: true, Message: agenthost.UserText("VAT of 200?")}
	for ev, err := range host.Run(ctx, ask) {
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
	page := readText(t, "docs/embedding.md")
	source := readText(t, "example_test.go")
	body := regexp.MustCompile(`(?s)func Example\(\) \{\n(.*?)\t// Output:`).FindStringSubmatch(source)[1]
	if n := strings.Count(body, "\n"); n > 30 {
		t.Errorf("the example has %d lines, want at most 30", n)
	}
	shown := map[string]string{"the example": strings.ReplaceAll("\n"+body, "\n\t", "\n")}
	for _, name := range []string{"root_agent.yaml", "app.yaml", "demo.script.yaml"} {
		shown[name] = readText(t, "testdata/till/"+name)
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
