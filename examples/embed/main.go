// Command embed serves a folder's apps over HTTP, reloads an app when its files change, and
// finishes running turns before it exits.
package main

import (
	"context"
	"fmt"
	"log"
	"net"
	"os"
	"os/signal"
	"syscall"

	"agenthost"
	"agenthost/pkg/store/sqlstore"
	"agenthost/pkg/store/sqlstore/sqlite"
	"agenthost/wing/gemini"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := serve(ctx, os.Args[1], os.Args[2]); err != nil {
		log.Fatal(err)
	}
}

// serve serves a folder's apps until ctx ends.
func serve(ctx context.Context, folder, address string) error {
	kinds := agenthost.StandardKinds() // what the apps may name
	kinds.Models = append(kinds.Models, gemini.Kind())
	host, err := agenthost.Open(ctx, &agenthost.Options{
		Folders:      []string{folder},
		Kinds:        kinds,
		StoreURL:     "memory:", // or sqlite:///agents.db
		StoreSchemes: sqlstore.Engines{sqlite.Engine()}.Schemes(),
		Problems:     os.Stderr,
	})
	if err != nil {
		return err
	}
	defer host.Close()
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return err
	}
	fmt.Printf("serving at http://%s\n", listener.Addr())
	api := host.NewServer(&agenthost.ServerOptions{AutoCreateSession: true})
	return host.Serve(ctx, listener, &agenthost.ServeOptions{Server: api})
}
