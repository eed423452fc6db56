package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"agenthost/internal/command"
	"agenthost/internal/terminal"
	"agenthost/pkg/loader"
	"agenthost/pkg/model"
	"agenthost/pkg/runtime"
	"agenthost/pkg/session"
	"agenthost/pkg/store"
	"agenthost/wing/chat/conversation"
)

// sessionFlags are the flags for session's subcommands.
type sessionFlags struct {
	command.StoreFlags
	load          command.LoadFlags
	user          string
	before, after string
	turns         int
	json          bool
	limit         int
	page          string
	outcomes      outcomeFlag
}

func newSessionCommand(env command.Env) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "session",
		Short: "List, show, rewind, delete and prune sessions",
		Long: `Session manages the stored sessions of an app: list them, show the events and state of
one, rewind one, delete one, or prune old ones. APPDIR is the app's folder; only a
rewind with TEXT loads the app. The commands do not migrate the database: list, show
and prune --dry-run read older schemas, and the others require the current one.`,
	}
	command.AddSubcommands(cmd, newSessionListCommand(env), newSessionShowCommand(env), newSessionRewindCommand(env), newSessionDeleteCommand(env), newSessionPruneCommand(env))
	return cmd
}

// setupCommand adds the flags that session's subcommands share, and the function to run.
func (f *sessionFlags) setupCommand(env command.Env, cmd *cobra.Command, run func(ctx context.Context, args []string) error) *cobra.Command {
	cmd.PreRunE = command.ApplyEnvironment
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		f.PrintLocation(env, args...)
		return f.AddLocation(run(cmd.Context(), args))
	}
	f.RegisterFlags(env, cmd.Flags())
	return cmd
}

func newSessionListCommand(env command.Env) *cobra.Command {
	var f sessionFlags
	cmd := f.setupCommand(env, &cobra.Command{
		Use:   "list APPDIR",
		Short: "List sessions",
		Args:  command.RequireArgs(1, 1),
	}, func(ctx context.Context, args []string) error { return listSessions(ctx, env, &f, args[0]) })
	cmd.Flags().StringVar(&f.user, "user", "", "list only the sessions of this user (default: all users)")
	cmd.Flags().IntVar(&f.limit, "limit", 0, "maximum number of sessions per page, 1 to 1000 (default: all)")
	cmd.Flags().StringVar(&f.page, "page", "", "continue the list from this page token")
	command.RegisterOutput(cmd.Flags(), &f.json, false)
	return cmd
}

func newSessionShowCommand(env command.Env) *cobra.Command {
	var f sessionFlags
	cmd := f.setupCommand(env, &cobra.Command{
		Use:   "show APPDIR SESSION",
		Short: "Show a session's events and state",
		Args:  command.RequireArgs(2, 2),
	}, func(ctx context.Context, args []string) error { return printSession(ctx, env, &f, args) })
	cmd.Flags().StringVar(&f.user, "user", "user", "user of the session")
	command.RegisterOutput(cmd.Flags(), &f.json, false)
	return cmd
}

func newSessionRewindCommand(env command.Env) *cobra.Command {
	var f sessionFlags
	cmd := f.setupCommand(env, &cobra.Command{
		Use:   "rewind APPDIR SESSION (--turns N | --before INVOCATION | --after EVENT) [TEXT]",
		Short: "Rewind a session, and continue it with TEXT",
		Long: `Rewind undoes the end of a session: it restores the session's state and artifacts,
and models no longer receive the undone events, which remain stored. State and
artifacts of the user or the app do not change.`,
		Args: command.RequireArgs(2, 3),
	}, func(ctx context.Context, args []string) error { return rewindSession(ctx, env, &f, args) })
	cmd.Flags().StringVar(&f.user, "user", "user", "user of the session")
	f.load.RegisterFlags(env, cmd.Flags())
	cmd.Flags().StringVar(&f.before, "before", "", "undo this invocation and all later ones")
	cmd.Flags().IntVar(&f.turns, "turns", 0, "number of turns to undo")
	cmd.Flags().StringVar(&f.after, "after", "", "undo all events after this one")
	command.RegisterOutput(cmd.Flags(), &f.json, true)
	return cmd
}

func newSessionDeleteCommand(env command.Env) *cobra.Command {
	var f sessionFlags
	cmd := f.setupCommand(env, &cobra.Command{
		Use:   "delete APPDIR SESSION",
		Short: "Delete a session with its events, state and artifacts",
		Args:  command.RequireArgs(2, 2),
	}, func(ctx context.Context, args []string) error { return deleteSession(ctx, env, &f, args) })
	cmd.Flags().StringVar(&f.user, "user", "user", "user of the session")
	f.outcomes.registerFlag(cmd.Flags())
	command.RegisterOutput(cmd.Flags(), &f.json, false)
	return cmd
}

func listSessions(ctx context.Context, env command.Env, f *sessionFlags, dir string) error {
	if f.limit < 0 || f.limit > store.MaxPage {
		return fmt.Errorf("--limit must be between 1 and %d, got %d; hint: without --limit all sessions are listed", store.MaxPage, f.limit)
	}
	st, err := f.OpenStoreFor(ctx, command.ReadDatabase)
	if err != nil {
		return err
	}
	defer st.Close()
	list := &sessionListPrinter{env: env, json: f.json}
	req := &store.PageRequest{App: loader.AppName(dir), User: f.user, Size: cmp.Or(f.limit, store.MaxPage), Token: f.page, WithoutState: !f.json}
	if f.page != "" && f.limit == 0 {
		req.Size = 100
	}
	for {
		page, next, err := st.Sessions.Page(ctx, req)
		if err != nil {
			return command.FailWith(err)
		}
		if err := list.printPage(page); err != nil {
			return command.FailWith(err)
		}
		if req.Token = next; next == "" || f.limit > 0 || f.page != "" {
			break
		}
	}
	if req.Token != "" {
		fmt.Fprintf(env.Err, "more sessions: --page %s\n", req.Token)
	}
	return command.FailWith(list.endList())
}

// A sessionListPrinter prints sessions in pages: a table, or one JSON array.
type sessionListPrinter struct {
	env     command.Env
	json    bool
	printed int
}

func (p *sessionListPrinter) printPage(page []*session.Session) error {
	if p.json {
		for _, sess := range page {
			text, err := sess.Head().MarshalJSON()
			if err != nil {
				return err
			}
			var out bytes.Buffer
			out.WriteString("[\n  ")
			if p.printed > 0 {
				out.Reset()
				out.WriteString(",\n  ")
			}
			p.printed++
			if err := json.Indent(&out, text, "  ", "  "); err != nil {
				return err
			}
			if _, err := out.WriteTo(p.env.Out); err != nil {
				return err
			}
		}
		return nil
	}
	columns := []terminal.Column{{Title: "SESSION", Whole: true}, {Title: "USER"}, {Title: "EVENTS", Right: true}, {Title: "LAST"}}
	for i := range columns {
		if p.printed > 0 { // the titles are those of the first page
			columns[i].Title = ""
		}
	}
	table := terminal.NewTable(columns...)
	for _, sess := range page {
		table.AddRow(sess.ID, sess.User, strconv.FormatInt(sess.Version, 10), sess.LastUpdate.Local().Format("2006-01-02 15:04:05"))
	}
	p.printed += len(page)
	return table.Print(p.env.Out)
}

// endList ends the JSON array.
func (p *sessionListPrinter) endList() (err error) {
	switch {
	case p.json && p.printed == 0:
		_, err = fmt.Fprintln(p.env.Out, "[]")
	case p.json:
		_, err = fmt.Fprintln(p.env.Out, "\n]")
	}
	return err
}

func (f *sessionFlags) sessionKey(args []string) session.Key {
	return session.Key{App: loader.AppName(args[0]), User: f.user, ID: args[1]}
}

func printSession(ctx context.Context, env command.Env, f *sessionFlags, args []string) error {
	st, err := f.OpenStoreFor(ctx, command.ReadDatabase)
	if err != nil {
		return err
	}
	defer st.Close()
	sess, err := st.Sessions.Get(ctx, f.sessionKey(args), nil)
	if err != nil {
		return command.FailWith(err)
	}
	if f.json {
		text, err := session.Form{Provenance: true}.AppendSession(nil, sess)
		if err != nil {
			return command.FailWith(err)
		}
		return env.PrintJSON(json.RawMessage(text))
	}
	table := terminal.NewTable(terminal.Column{Title: "EVENT", Whole: true}, terminal.Column{Title: "INVOCATION", Whole: true}, terminal.Column{Title: "AUTHOR"}, terminal.Column{Title: "WHAT", Min: 40})
	active := map[*session.Event]bool{}
	for _, ev := range session.WithoutRewound(sess.Events()) {
		active[ev] = true
	}
	for _, ev := range sess.Events() {
		what := terminal.Cell{Text: summarizeEvent(ev)}
		if ev.Actions.RewindBeforeInvocationID == "" && !active[ev] {
			what = terminal.Cell{Text: "(undone) " + what.Text, Role: terminal.Muted}
		} else if ev.ErrorCode != "" {
			what.Role = terminal.Bad
		}
		table.AddCells(terminal.Cell{Text: ev.ID}, terminal.Cell{Text: ev.InvocationID}, terminal.Cell{Text: ev.Author}, what)
	}
	if err := table.Print(env.Out); err != nil {
		return command.FailWith(err)
	}
	fmt.Fprint(env.Out, "\nstate ")
	return env.PrintJSON(sess.State.All())
}

// summarizeEvent returns an event's content and actions in one line.
func summarizeEvent(ev *session.Event) string {
	var parts []string
	if ev.Actions.RewindBeforeInvocationID != "" {
		parts = append(parts, "(rewind)")
	}
	if c := ev.Actions.Compaction; c != nil {
		parts = append(parts, "(summary) "+strings.Join(strings.Fields(model.TextOf(c.CompactedContent)), " "))
	}
	if ev.Content != nil {
		for _, p := range ev.Content.Parts {
			switch {
			case p.FunctionCall != nil:
				parts = append(parts, "→ "+p.FunctionCall.Name+"("+terminal.AbbreviateJSON(p.FunctionCall.Args)+")")
			case p.FunctionResponse != nil:
				parts = append(parts, "← "+p.FunctionResponse.Name+" "+terminal.AbbreviateJSON(p.FunctionResponse.Response))
			case p.Text != "" && !p.Thought:
				parts = append(parts, strings.Join(strings.Fields(p.Text), " "))
			}
		}
	}
	if ev.Actions.AgentState != nil {
		parts = append(parts, "(at) "+terminal.AbbreviateJSON(ev.Actions.AgentState))
	}
	if ev.Actions.EndOfAgent {
		parts = append(parts, "(end)")
	}
	if ev.ErrorCode != "" {
		parts = append(parts, "! "+ev.ErrorCode)
	}
	if len(ev.Actions.StateDelta) > 0 {
		parts = append(parts, "state "+terminal.AbbreviateJSON(ev.Actions.StateDelta))
	}
	return strings.Join(parts, "; ")
}

func rewindSession(ctx context.Context, env command.Env, f *sessionFlags, args []string) error {
	key := f.sessionKey(args)
	req := &runtime.RewindRequest{
		App: key.App, UserID: key.User, SessionID: key.ID, BeforeInvocationID: f.before, AfterEventID: f.after,
		Writer: session.WriterAdmin,
	}
	host, err := f.openHost(ctx, env, args)
	if err != nil {
		return err
	}
	defer host.Store().Close()
	defer host.Close()
	if f.turns != 0 {
		if req.BeforeInvocationID, err = f.findTurn(ctx, host.Store(), key); err != nil {
			return err
		}
	}
	if len(args) < 3 {
		for _, err := range host.Rewind(ctx, req) {
			return command.FailRun(err)
		}
		fmt.Fprintf(env.Err, "session %s rewound\n", key.ID)
		return nil
	}
	streaming := !f.json
	req.Message, req.Streaming = model.UserText(args[2]), &streaming
	t, err := conversation.Open(ctx, conversation.Options{Env: env, Host: host, Key: key, MustExist: true, JSON: f.json, FindConsent: findConsent(nil)})
	if err != nil {
		return command.FailWith(err)
	}
	return t.PrintEvents(host.Rewind(ctx, req))
}

// findTurn returns the invocation at which the last N turns start.
func (f *sessionFlags) findTurn(ctx context.Context, st *store.Store, key session.Key) (string, error) {
	if f.before+f.after != "" || f.turns < 0 {
		return "", errors.New("--turns must be above 0 and cannot be combined with --before or --after")
	}
	sess, err := st.Sessions.Get(ctx, key, nil)
	if err != nil {
		return "", command.FailWith(err)
	}
	first, err := conversation.FindTurn(sess, f.turns)
	if err != nil {
		return "", command.FailWith(err)
	}
	return first.InvocationID, nil
}

// openHost returns a host with the app if there is TEXT to run, otherwise a host
// without apps.
func (f *sessionFlags) openHost(ctx context.Context, env command.Env, args []string) (*runtime.Host, error) {
	if len(args) == 3 {
		open := func(ctx context.Context, _ *slog.Logger) (*store.Store, error) {
			return f.OpenStoreFor(ctx, command.ChangeDatabase)
		}
		host, _, err := f.load.OpenHost(ctx, args[0], nil, open)
		return host, err
	}
	st, err := f.OpenStoreFor(ctx, command.ChangeDatabase)
	if err != nil {
		return nil, err
	}
	return runtime.NewHost(st, nil), nil
}

func deleteSession(ctx context.Context, env command.Env, f *sessionFlags, args []string) error {
	keep, err := f.outcomes.readRetention(args[0])
	if err != nil {
		return err
	}
	st, err := f.OpenStoreFor(ctx, command.ChangeDatabase)
	if err != nil {
		return err
	}
	defer st.Close()
	key := f.sessionKey(args)
	if _, err := st.Sessions.Get(ctx, key, nil); err != nil {
		return command.FailWith(err)
	}
	if err := st.Delete(ctx, key, keep); err != nil {
		return command.FailWith(err)
	}
	fmt.Fprintf(env.Err, "session %s deleted\n", key.ID)
	if f.json {
		return env.PrintJSON(newChangedSession(key))
	}
	return nil
}

// A changedSession is the session that a command has changed or deleted. Without an ID, it is all
// sessions of the user.
type changedSession struct {
	App     string `json:"app"`
	User    string `json:"user"`
	Session string `json:"session,omitempty"`
}

func newChangedSession(key session.Key) changedSession {
	return changedSession{key.App, key.User, key.ID}
}
