// Command extend runs an app whose YAML names a model provider, a tool kind, an agent
// class and a plugin of this program, and keeps its sessions in a bbolt file.
package main

import (
	"context"
	"fmt"
	"log"
	"os"

	"agenthost/examples/extend/kvstore"
	"agenthost/pkg/loader"
	"agenthost/pkg/model"
	"agenthost/pkg/provider"
	"agenthost/pkg/runtime"
	"agenthost/pkg/store"
	"agenthost/pkg/store/memstore"
	"agenthost/pkg/tool/builtin"
)

func main() {
	if err := run(context.Background(), os.Args[1], os.Args[2]); err != nil {
		log.Fatal(err)
	}
}

// run prints the texts of one turn in a session of a file.
func run(ctx context.Context, file, message string) error {
	app, problems := newLoader().Load(ctx, "shop")
	if app == nil {
		return problems.Err()
	}
	db, err := openBolt(file)
	if err != nil {
		return err
	}
	defer db.Close()
	st := newStore(db)
	defer st.Close()
	host := runtime.NewHost(st, nil)
	defer host.Close()
	host.Swap(app)
	turn := &runtime.RunRequest{App: app.Name(), UserID: "ana", SessionID: "s1", CreateSession: true, Message: model.UserText(message)}
	for ev, err := range host.Run(ctx, turn) {
		if err != nil {
			return err
		}
		if text := ev.Text(); text != "" {
			fmt.Printf("%s: %s\n", ev.Author, text)
		}
	}
	return nil
}

// newStore returns a store with sessions in bbolt. Only one process can open the file, so
// they need no leases. All else is in memory.
func newStore(db boltDB) *store.Store {
	b := memstore.NewBackends()
	b.Sessions, b.Unshared = kvstore.NewSessions(db), true
	return store.New(b, nil)
}

// newLoader returns a loader with our kinds after those of agenthost.
func newLoader() *loader.Loader {
	return loader.New(loader.Kinds{
		Models:     append(provider.Kinds(), providers()...),
		Tools:      append(builtin.Kinds(), toolKinds()...),
		Builtins:   builtin.Builtins(),
		Agents:     append(loader.AgentKinds(), agentClasses()...),
		AgentTools: loader.AgentToolKinds(),
		Plugins:    append(loader.PluginKinds(), plugins()...),
	}, nil)
}
