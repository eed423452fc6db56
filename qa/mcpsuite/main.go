// Command mcpsuite serves the app in a folder as an MCP server, for the public conformance suite:
//
//	mcpsuite APPDIR
//
// It prints the server's URL, and ends with its standard input. The app is YAML; tools that ask the
// client for a sampled answer or its roots, answer without a state or change the lists are not what
// an app can have, and are written in Go here.
package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"agenthost"
	"agenthost/pkg/loader"
	"agenthost/pkg/server"
	"agenthost/pkg/spec"
	"agenthost/wing/mcpserver"
	"agenthost/wing/skills"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: mcpsuite APPDIR")
		os.Exit(2)
	}
	if err := serveApp(os.Args[1], os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "mcpsuite:", err)
		os.Exit(1)
	}
}

// serveApp writes the URL of the app's server to out, and serves it until in ends.
func serveApp(folder string, in io.Reader, out io.Writer) error {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() {
		_, _ = io.Copy(io.Discard, in)
		cancel()
	}()
	kinds := agenthost.StandardKinds()
	kinds.Tools = append(kinds.Tools, skills.Kinds()...)
	kinds.Sections = spec.Kinds[loader.SectionEnv, any]{mcpserver.Section()}
	host, err := agenthost.Open(ctx, &agenthost.Options{Folders: []string{folder}, Kinds: kinds, Problems: os.Stderr})
	if err != nil {
		return err
	}
	defer host.Close()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "http://%s/apps/%s/mcp\n", listener.Addr(), filepath.Base(folder))
	api := host.NewServer(&agenthost.ServerOptions{Extensions: []func(*server.Services) *server.Extension{
		mcpserver.Extend(&mcpserver.Options{Events: mcp.NewMemoryEventStore(nil), Extend: addFixtures, TaskDelay: 500 * time.Millisecond}),
	}})
	return host.Serve(ctx, listener, &agenthost.ServeOptions{Server: api, Drain: 5 * time.Second})
}
