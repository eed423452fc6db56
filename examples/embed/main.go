// Command embed serves the apps of a folder over HTTP, reloads an app when its files
// change, and finishes running turns before it exits.
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"agenthost/pkg/loader"
	"agenthost/pkg/provider"
	"agenthost/pkg/runtime"
	"agenthost/pkg/server"
	"agenthost/pkg/store/sqlstore"
	"agenthost/pkg/store/sqlstore/sqlite"
	"agenthost/pkg/store/storeurl"
	"agenthost/pkg/tool/builtin"
	"agenthost/pkg/tool/httptool"
	"agenthost/wing/gemini"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := serve(ctx, os.Args[1], os.Args[2]); err != nil {
		log.Fatal(err)
	}
}

// serve serves the apps of a folder until ctx ends.
func serve(ctx context.Context, folder, address string) error {
	st, err := storeurl.Open(ctx, "memory:", &storeurl.Options{ // or sqlite:///agents.db
		Schemes: sqlstore.Engines{sqlite.Engine()}.Schemes(),
	})
	if err != nil {
		return err
	}
	defer st.Close()
	host := runtime.NewHost(st, nil)
	defer host.Close()

	kinds := loader.Kinds{ // what the apps may name
		Models:     append(provider.Kinds(), gemini.Kind()),
		Tools:      append(builtin.Kinds(), httptool.Kinds()...),
		Builtins:   append(builtin.Builtins(), httptool.Builtins()...),
		Agents:     loader.AgentKinds(),
		AgentTools: loader.AgentToolKinds(),
		Plugins:    loader.PluginKinds(),
	}
	watch := loader.NewWatch(loader.New(kinds, nil), host, []string{folder}, &loader.WatchOptions{Problems: os.Stderr})
	if err := watch.Sync(ctx); err != nil { // load the apps
		return err
	}
	ctx, stop := context.WithCancel(ctx)
	watched := make(chan error, 1)
	go func() { watched <- watch.Run(ctx) }() // reload them when their files change

	listener, err := net.Listen("tcp", address)
	if err != nil {
		stop()
		return errors.Join(err, <-watched)
	}
	fmt.Printf("serving at http://%s\n", listener.Addr())
	api := server.New(host, &server.Options{AutoCreateSession: true})
	web := &http.Server{Handler: api, ReadHeaderTimeout: 10 * time.Second}
	served := make(chan error, 1)
	go func() { served <- web.Serve(listener) }()

	select {
	case err = <-served:
	case <-ctx.Done():
		err = shutDown(api, web)
	}
	stop()
	return errors.Join(err, <-watched)
}

// shutDown rejects new turns, and waits up to 30 seconds for the running ones.
func shutDown(api *server.Server, web *http.Server) error {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	api.Drain()
	if err := api.Wait(ctx); err != nil {
		api.Abort()
		return errors.Join(err, web.Close())
	}
	return web.Shutdown(ctx)
}
