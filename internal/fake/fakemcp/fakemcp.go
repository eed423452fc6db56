// Package fakemcp is an MCP server for tests, built with the official SDK. [New] serves
// over HTTP. For stdio, the test binary starts itself and calls [ServeIfAsked] before
// its tests.
package fakemcp

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// Asked is the environment variable that turns a test binary into a server: "serve"
// serves, "odd" is an [OddServer], "pings" sends requests and reads nothing
// during a call, "quit" prints errors and exits, and "deaf" never responds.
const Asked = "AGENTHOST_TEST_MCP"

// ServeIfAsked serves on standard input and output and exits, if the environment
// variable is set.
func ServeIfAsked() {
	switch os.Getenv(Asked) {
	case "serve":
		Serve()
	case "odd":
		new(OddServer).ServeProgram(os.Stdin, os.Stdout)
	case "pings":
		servePings()
	case "deaf":
		time.Sleep(time.Hour)
	case "quit":
		fmt.Fprintf(os.Stderr, "starting\nno account for %s\n\n", os.Getenv("TOKEN"))
	default:
		return
	}
	os.Exit(0)
}

// Serve serves on standard input and output until the input is closed.
func Serve() { _ = New("a program").Run(context.Background(), &mcp.StdioTransport{}) }

// Stay never responds and never exits. It keeps the pipe in the variable HELD open while the
// process runs.
func Stay() {
	pipe, err := os.OpenFile(os.Getenv("HELD"), os.O_WRONLY, 0)
	if err != nil {
		os.Exit(1)
	}
	defer pipe.Close()
	time.Sleep(time.Hour)
}

// servePings serves a tool t that sends requests without end and reads no response.
func servePings() {
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		var req struct {
			ID     json.RawMessage
			Method string
		}
		_ = json.Unmarshal(lines.Bytes(), &req)
		result := ""
		switch req.Method {
		case "initialize":
			result = `{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"pings","version":"1"}}`
		case "tools/list":
			result = `{"tools":[{"name":"t","inputSchema":{"type":"object"}}]}`
		case "tools/call":
			for i := 0; ; i++ {
				if _, err := fmt.Printf("{\"jsonrpc\":\"2.0\",\"id\":\"ping-%d\",\"method\":\"ping\"}\n", i); err != nil {
					return
				}
			}
		}
		if result != "" {
			fmt.Printf("{\"jsonrpc\":\"2.0\",\"id\":%s,\"result\":%s}\n", req.ID, result)
		}
	}
}

type addInput struct {
	A int `json:"a" jsonschema:"the first"`
	B int `json:"b" jsonschema:"the second"`
}

type addOutput struct {
	Sum int `json:"sum"`
}

type echoInput struct {
	Name string `json:"name"`
}

type serverInfo struct {
	Name string `json:"name"`
	PID  int    `json:"pid"`
	Dir  string `json:"dir"`
	// Env has the environment variables' names.
	Env []string `json:"env"`
}

// New returns a server with this name. Its tools are add, echo (read-only), who, fail,
// and die, which exits without a response.
func New(title string) *mcp.Server {
	s := mcp.NewServer(&mcp.Implementation{Name: title, Version: "1"}, nil)
	mcp.AddTool(s, &mcp.Tool{Name: "add", Description: "Adds two numbers."}, func(_ context.Context, _ *mcp.CallToolRequest, in addInput) (*mcp.CallToolResult, addOutput, error) {
		return nil, addOutput{in.A + in.B}, nil
	})
	readOnly := &mcp.ToolAnnotations{ReadOnlyHint: true}
	mcp.AddTool(s, &mcp.Tool{Name: "echo", Description: "Returns the value of a variable.", Annotations: readOnly}, func(_ context.Context, _ *mcp.CallToolRequest, in echoInput) (*mcp.CallToolResult, any, error) {
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: in.Name + "=" + os.Getenv(in.Name)}}}, nil, nil
	})
	mcp.AddTool(s, &mcp.Tool{Name: "who", Description: "Returns the name and process of the server."}, func(context.Context, *mcp.CallToolRequest, struct{}) (*mcp.CallToolResult, serverInfo, error) {
		return nil, describeServer(title), nil
	})
	mcp.AddTool(s, &mcp.Tool{Name: "fail", Description: "Fails."}, func(context.Context, *mcp.CallToolRequest, struct{}) (*mcp.CallToolResult, any, error) {
		return nil, nil, errors.New("there is no such order")
	})
	mcp.AddTool(s, &mcp.Tool{Name: "die", Description: "Ends the server."}, func(context.Context, *mcp.CallToolRequest, struct{}) (*mcp.CallToolResult, any, error) {
		os.Exit(3)
		return nil, nil, nil
	})
	return s
}

func describeServer(title string) serverInfo {
	dir, _ := os.Getwd()
	w := serverInfo{Name: title, PID: os.Getpid(), Dir: dir}
	for _, variable := range os.Environ() {
		n, _, _ := strings.Cut(variable, "=")
		w.Env = append(w.Env, n)
	}
	return w
}
