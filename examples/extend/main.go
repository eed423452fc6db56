// Command extend runs an app whose YAML names this program's model provider, tool kind, agent class
// and plugin, keeps its sessions in a bbolt file, and serves its own protocol.
package main

import (
	"context"
	"fmt"
	"log"
	"os"

	"agenthost"
	"agenthost/examples/extend/kvstore"
	"agenthost/pkg/store"
	"agenthost/pkg/store/memstore"
)

func main() {
	if err := run(context.Background(), os.Args[1], os.Args[2]); err != nil {
		log.Fatal(err)
	}
}

// run prints one turn's texts in a session from a file.
func run(ctx context.Context, file, message string) error {
	db, err := openBolt(file)
	if err != nil {
		return err
	}
	defer db.Close()
	st := newStore(db)
	defer st.Close()
	host, err := agenthost.Open(ctx, &agenthost.Options{Folders: []string{"shop"}, Kinds: kinds(), Store: st, Problems: os.Stderr})
	if err != nil {
		return err
	}
	defer host.Close()
	turn := &agenthost.RunRequest{App: "shop", UserID: "ana", SessionID: "s1", CreateSession: true, Message: agenthost.UserText(message)}
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

// kinds returns our kinds after agenthost's.
func kinds() agenthost.Kinds {
	k := agenthost.StandardKinds()
	k.Models = append(k.Models, providers()...)
	k.Tools = append(k.Tools, toolKinds()...)
	k.Agents = append(k.Agents, agentClasses()...)
	k.Plugins = append(k.Plugins, plugins()...)
	return k
}
