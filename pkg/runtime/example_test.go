package runtime_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"strings"

	"google.golang.org/genai"

	"agenthost/internal/testenv"
	"agenthost/pkg/loader"
	"agenthost/pkg/model"
	"agenthost/pkg/runtime"
	"agenthost/pkg/session"
	"agenthost/pkg/store/storeurl"
	"agenthost/pkg/tool"
	"agenthost/pkg/tool/declare"
)

// An app made in Go: an agent with a tool, on a store in memory.
func Example() {
	ctx := context.Background()
	st, err := storeurl.Open(ctx, "memory:", nil)
	if err != nil {
		log.Fatal(err)
	}
	type amount struct{ Net int }
	vat, err := declare.Func("vat", "The tax on an amount.", func(_ context.Context, _ *tool.Call, in amount) (int, error) {
		return in.Net * 21 / 100, nil
	})
	if err != nil {
		log.Fatal(err)
	}
	clerk := runtime.NewLLM("clerk", &runtime.LLMOptions{
		Model: modelFunc(askVAT), Tools: []tool.Tool{vat},
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
	fmt.Print(formatRun(host.Run(ctx, &runtime.RunRequest{App: "shop", UserID: "ana", SessionID: "s1", Message: model.UserText("VAT of 200?")})))
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

// An app from a folder, with the program's own tool, callback and code executor, each by the name
// that the documents use.
func Example_functions() {
	ctx := context.Background()
	type dice struct{ Sides int }
	roll, err := declare.Func("roll_die", "Rolls a die.", func(_ context.Context, _ *tool.Call, in dice) (int, error) {
		return in.Sides - 1, nil
	})
	if err != nil {
		log.Fatal(err)
	}
	bye := func(_ context.Context, m *runtime.CallbackContext) (*genai.Content, error) {
		if model.TextOf(m.UserContent()) == "bye" {
			return model.ModelText("Bye."), nil
		}
		return nil, nil // no answer: the agent itself runs
	}
	app, problems := loader.New(testenv.Kinds(), &loader.Options{Functions: loader.Functions{
		Tools:         map[string]tool.Tool{"my_pkg.tools.roll_die": roll},
		Callbacks:     map[string]runtime.Callbacks{"my_pkg.bye": {BeforeAgent: []runtime.AgentFunc{bye}}},
		CodeExecutors: map[string]runtime.CodeExecutor{"upper": upperExecutor{}},
	}}).Load(ctx, "testdata/examples/dice")
	if app == nil {
		log.Fatal(problems)
	}
	host, err := runtime.InMemory(app)
	if err != nil {
		log.Fatal(err)
	}
	defer host.Close()
	for _, text := range []string{"roll", "shout", "bye"} {
		fmt.Print(formatRun(host.Run(ctx, &runtime.RunRequest{
			App: "dice", UserID: "ana", SessionID: "s1", CreateSession: true, Message: model.UserText(text),
		})))
	}
	// Output:
	// croupier: call roll_die
	// croupier: roll_die map[result:5]
	// croupier: A 5!
	// croupier: code hello
	// croupier: result Code execution result:
	// HELLO
	//
	// croupier: Done.
	// croupier: Bye.
}

// upperExecutor is a code executor whose output is the code in upper case.
type upperExecutor struct{}

func (upperExecutor) ExecuteCode(_ context.Context, _ *runtime.CallbackContext, code *runtime.Code) (*runtime.CodeResult, error) {
	return &runtime.CodeResult{Stdout: strings.ToUpper(code.Source)}, nil
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
	app, problems := loader.New(testenv.Kinds(), nil).Load(ctx, hello)
	if app == nil {
		log.Fatal(problems)
	}
	host, err := runtime.InMemory(app)
	if err != nil {
		log.Fatal(err)
	}
	defer host.Close()
	fmt.Print(formatRun(host.Run(ctx, &runtime.RunRequest{App: "hello", UserID: "ana", SessionID: "s1", CreateSession: true, Message: model.UserText("world")})))
	// Output:
	// hello: Hello, world!
}
