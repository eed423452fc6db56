package runtime_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"google.golang.org/genai"

	"agenthost/pkg/loader"
	"agenthost/pkg/model"
	"agenthost/pkg/runtime"
	"agenthost/pkg/session"
	"agenthost/pkg/store"
	"agenthost/pkg/tool"
)

// An app made of Go code: an agent with a tool, on a store in memory.
func Example() {
	ctx := context.Background()
	st, err := store.Open(ctx, "memory:", nil)
	if err != nil {
		log.Fatal(err)
	}
	type amount struct{ Net int }
	vat, err := tool.FromFunc("vat", "The tax on an amount.", func(_ context.Context, _ *tool.Call, in amount) (int, error) {
		return in.Net * 21 / 100, nil
	})
	if err != nil {
		log.Fatal(err)
	}
	clerk := runtime.NewLLM("clerk", &runtime.LLMOptions{
		Model: answering(askVAT), Tools: []tool.Tool{vat},
		Instruction: runtime.NewInstruction("Compute what {user:name} asks.", nil),
	})
	app, err := runtime.NewApp("shop", clerk, nil)
	if err != nil {
		log.Fatal(err)
	}
	host := runtime.NewHost(st, nil)
	host.Swap(app)
	if _, err := st.Sessions.Create(ctx, session.Key{App: "shop", User: "ana", ID: "s1"}, map[string]any{"user:name": "Ana"}); err != nil {
		log.Fatal(err)
	}
	fmt.Print(outline(host.Run(ctx, &runtime.RunRequest{App: "shop", UserID: "ana", SessionID: "s1", Message: model.UserText("VAT of 200?")})))
	// Output:
	// clerk: call vat
	// clerk: vat map[result:42]
	// clerk: done
}

// askVAT stands for a model: it calls the tool, then is done.
func askVAT(_ context.Context, req *model.Request) (*genai.Content, error) {
	if len(req.Contents) > 1 {
		return model.ModelText("done"), nil
	}
	call := &genai.FunctionCall{Name: "vat", Args: map[string]any{"Net": 200}}
	return &genai.Content{Role: genai.RoleModel, Parts: []*genai.Part{{FunctionCall: call}}}, nil
}

// An app from a folder.
func Example_folder() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	hello := filepath.Join(dir, "hello")
	for name, content := range map[string]string{
		"root_agent.yaml":  "name: hello\nmodel: demo\ninstruction: Greet the user.\n",
		"app.yaml":         "models: {demo: {provider: scripted, script: demo.script.yaml}}\n",
		"demo.script.yaml": "- text: \"Hello, {user}!\"\n",
	} {
		if err := os.MkdirAll(hello, 0o755); err != nil {
			log.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(hello, name), []byte(content), 0o644); err != nil {
			log.Fatal(err)
		}
	}
	app, problems := loader.New(nil).Load(ctx, hello)
	if app == nil {
		log.Fatal(problems)
	}
	st, err := store.Open(ctx, "memory:", nil)
	if err != nil {
		log.Fatal(err)
	}
	host := runtime.NewHost(st, nil)
	host.Swap(app)
	if _, err := st.Sessions.Create(ctx, session.Key{App: "hello", User: "ana", ID: "s1"}, nil); err != nil {
		log.Fatal(err)
	}
	fmt.Print(outline(host.Run(ctx, &runtime.RunRequest{App: "hello", UserID: "ana", SessionID: "s1", Message: model.UserText("world")})))
	// Output:
	// hello: Hello, world!
}
