// Command extend runs an app whose YAML names a model provider, a tool kind, an agent
// class and a plugin of this program.
package main

import (
	"context"
	"fmt"
	"log"
	"os"

	"agenthost/pkg/loader"
	"agenthost/pkg/model"
	"agenthost/pkg/provider"
	"agenthost/pkg/runtime"
	"agenthost/pkg/tool"
)

func main() {
	if err := run(context.Background(), "shop", os.Args[1]); err != nil {
		log.Fatal(err)
	}
}

// run prints the texts of one turn of an app.
func run(ctx context.Context, folder, message string) error {
	app, problems := newLoader().Load(ctx, folder)
	if app == nil {
		return problems.Err()
	}
	host, err := runtime.InMemory(app)
	if err != nil {
		return err
	}
	defer host.Close()
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

// newLoader returns a loader with our kinds after those of agenthost.
func newLoader() *loader.Loader {
	return loader.New(&loader.Options{
		Providers:    append(provider.Kinds(), providers()...),
		ToolKinds:    append(tool.Kinds(), toolKinds()...),
		AgentClasses: append(runtime.AgentKinds(), agentClasses()...),
		Plugins:      append(runtime.PluginKinds(), plugins()...),
	})
}
