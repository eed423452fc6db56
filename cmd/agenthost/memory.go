package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"agenthost/internal/command"
	"agenthost/internal/terminal"
	"agenthost/pkg/loader"
	"agenthost/pkg/session"
	"agenthost/pkg/store"
)

// memoryFlags are the flags for memory's subcommands.
type memoryFlags struct {
	command.StoreFlags
	user  string
	limit int
	json  bool
	all   bool
}

func newMemoryCommand(env command.Env) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "memory",
		Short: "Add sessions to a user's memory, search and delete it",
		Long: `Memory manages the memories of an app's users, which are the messages of the
sessions that were added. Agents search them with the tools load_memory and
preload_memory. APPDIR is the app's folder; the app is not loaded.`,
	}
	command.AddSubcommands(cmd, newMemoryAddCommand(env), newMemorySearchCommand(env), newMemoryDeleteCommand(env))
	return cmd
}

// setupCommand adds the flags that memory's subcommands share, and the function to run.
func (f *memoryFlags) setupCommand(env command.Env, cmd *cobra.Command, use command.DatabaseUse, run func(ctx context.Context, st *store.Store, args []string) error) *cobra.Command {
	cmd.Flags().StringVar(&f.user, "user", "user", "user who owns the memory")
	return f.StoreFlags.SetupCommand(env, cmd, use, run)
}

// setupMemoryCommand is setupCommand for verbs that read no session.
func (f *memoryFlags) setupMemoryCommand(env command.Env, cmd *cobra.Command, use command.DatabaseUse, run func(ctx context.Context, st *store.Store, args []string) error) *cobra.Command {
	f.setupCommand(env, cmd, use, run)
	open := cmd.RunE
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		f.SkipSessions()
		return open(cmd, args)
	}
	return cmd
}

func newMemoryAddCommand(env command.Env) *cobra.Command {
	var f memoryFlags
	cmd := f.setupCommand(env, &cobra.Command{
		Use:   "add APPDIR SESSION",
		Short: "Add a session to the memory, replacing its earlier memories",
		Args:  command.RequireArgs(2, 2),
	}, command.CreateDatabase, func(ctx context.Context, st *store.Store, args []string) error {
		sess, err := st.Sessions.Get(ctx, f.sessionKey(args), nil)
		if err == nil {
			err = st.Memories.AddSession(ctx, sess)
		}
		if err != nil {
			return command.FailWith(err)
		}
		fmt.Fprintf(env.Err, "session %s added to memory\n", args[1])
		return f.printChanged(env, f.sessionKey(args))
	})
	command.RegisterOutput(cmd.Flags(), &f.json, false)
	return cmd
}

// printChanged prints with --output json which session's memories have changed; without an ID, those
// of all sessions of the user.
func (f *memoryFlags) printChanged(env command.Env, key session.Key) error {
	if !f.json {
		return nil
	}
	return env.PrintJSON(newChangedSession(key))
}

func newMemorySearchCommand(env command.Env) *cobra.Command {
	var f memoryFlags
	cmd := f.setupMemoryCommand(env, &cobra.Command{
		Use:   "search APPDIR TEXT",
		Short: "Search the memory, best match first",
		Args:  command.RequireArgs(2, 2),
	}, command.ReadDatabase, func(ctx context.Context, st *store.Store, args []string) error {
		found, err := st.Memories.Search(ctx, loader.AppName(args[0]), f.user, store.MemoryQuery{Text: args[1], Limit: f.limit})
		if err != nil {
			return command.FailWith(err)
		}
		return f.printMemories(env, found)
	})
	cmd.Flags().IntVar(&f.limit, "limit", 10, "maximum number of results")
	command.RegisterOutput(cmd.Flags(), &f.json, false)
	return cmd
}

func (f *memoryFlags) printMemories(env command.Env, found []*session.Memory) error {
	if f.json {
		return env.PrintJSON(append([]*session.Memory{}, found...))
	}
	table := terminal.NewTable(terminal.Column{Title: "TIME", Whole: true}, terminal.Column{Title: "AUTHOR"}, terminal.Column{Title: "TEXT"})
	for _, m := range found {
		table.AddRow(m.Timestamp.Local().Format("2006-01-02 15:04:05"), m.Author, strings.Join(strings.Fields(m.Text()), " "))
	}
	return command.FailWith(table.Print(env.Out))
}

func newMemoryDeleteCommand(env command.Env) *cobra.Command {
	var f memoryFlags
	cmd := f.setupMemoryCommand(env, &cobra.Command{
		Use:   "delete APPDIR (SESSION | --all)",
		Short: "Delete a session's memories, or all memories of a user",
		Args:  command.RequireArgs(1, 2),
	}, command.ChangeDatabase, func(ctx context.Context, st *store.Store, args []string) error {
		switch {
		case f.all == (len(args) == 2):
			return errors.New("exactly one of SESSION and --all is required")
		case f.all:
			if err := st.Memories.DeleteAll(ctx, loader.AppName(args[0]), f.user); err != nil {
				return command.FailWith(err)
			}
			fmt.Fprintf(env.Err, "all memories of user %s deleted\n", f.user)
			return f.printChanged(env, session.Key{App: loader.AppName(args[0]), User: f.user})
		}
		if err := st.Memories.Delete(ctx, f.sessionKey(args)); err != nil {
			return command.FailWith(err)
		}
		fmt.Fprintf(env.Err, "memories of session %s deleted\n", args[1])
		return f.printChanged(env, f.sessionKey(args))
	})
	command.RegisterOutput(cmd.Flags(), &f.json, false)
	cmd.Flags().BoolVar(&f.all, "all", false, "delete all memories of the user")
	return cmd
}

func (f *memoryFlags) sessionKey(args []string) session.Key {
	return session.Key{App: loader.AppName(args[0]), User: f.user, ID: args[1]}
}
