package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"agenthost/pkg/loader"
	"agenthost/pkg/model"
	"agenthost/pkg/runtime"
	"agenthost/pkg/session"
	"agenthost/pkg/store"
)

// sessionFlags are those of the verbs below session.
type sessionFlags struct {
	storeFlags
	load          loadFlags
	user          string
	before, after string
	turns         int
	json          bool
	limit         int
	page          string
}

func newSession(io stdio) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "session",
		Short: "List, show, rewind, delete and prune sessions",
		Long: `Session looks after the stored sessions of an app: list them, show one with its
events and state, take back the end of one, or delete it or all old ones. APPDIR is the app's
folder; only a rewind that goes on with a TEXT loads it.`,
	}
	addVerbs(cmd, newSessionList(io), newSessionShow(io), newSessionRewind(io), newSessionDelete(io), newSessionPrune(io))
	return cmd
}

// setupCommand makes a verb below session, with the flags that all of them have.
func (f *sessionFlags) setupCommand(cmd *cobra.Command, run func(ctx context.Context, args []string) error) *cobra.Command {
	cmd.PreRunE = applyEnvironment
	cmd.RunE = func(cmd *cobra.Command, args []string) error { return f.addLocation(run(cmd.Context(), args)) }
	f.registerFlags(cmd.Flags())
	return cmd
}

func newSessionList(io stdio) *cobra.Command {
	var f sessionFlags
	cmd := f.setupCommand(&cobra.Command{
		Use:   "list APPDIR",
		Short: "List sessions",
		Args:  requireArgs(1, 1),
	}, func(ctx context.Context, args []string) error { return listSessions(ctx, io, &f, args[0]) })
	cmd.Flags().StringVar(&f.user, "user", "", "only the sessions of this user (default: of all)")
	cmd.Flags().IntVar(&f.limit, "limit", 0, "at most so many, and a token for the next ones (default: all)")
	cmd.Flags().StringVar(&f.page, "page", "", "go on behind a list that was cut, by its token")
	cmd.Flags().BoolVar(&f.json, "json", false, "print JSON")
	return cmd
}

func newSessionShow(io stdio) *cobra.Command {
	var f sessionFlags
	cmd := f.setupCommand(&cobra.Command{
		Use:   "show APPDIR SESSION",
		Short: "Show the events and the state of a session",
		Args:  requireArgs(2, 2),
	}, func(ctx context.Context, args []string) error { return showSession(ctx, io, &f, args) })
	cmd.Flags().StringVar(&f.user, "user", "user", "whose session it is")
	cmd.Flags().BoolVar(&f.json, "json", false, "print JSON")
	return cmd
}

func newSessionRewind(io stdio) *cobra.Command {
	var f sessionFlags
	cmd := f.setupCommand(&cobra.Command{
		Use:   "rewind APPDIR SESSION (--turns N | --before INVOCATION | --after EVENT) [TEXT]",
		Short: "Take back the end of a session, and go on with TEXT",
		Long: `Rewind takes back the end of a session: its state and its artifacts become what
they were, and models see nothing of what was taken back. It stays stored. What
belongs to the user or the app does not change.`,
		Args: requireArgs(2, 3),
	}, func(ctx context.Context, args []string) error { return rewindSession(ctx, io, &f, args) })
	cmd.Flags().StringVar(&f.user, "user", "user", "whose session it is")
	f.load.registerFlags(cmd.Flags())
	cmd.Flags().StringVar(&f.before, "before", "", "take back this invocation and all behind it")
	cmd.Flags().IntVar(&f.turns, "turns", 0, "take back so many of the user's last messages and what came of them")
	cmd.Flags().StringVar(&f.after, "after", "", "take back all behind this event")
	cmd.Flags().BoolVar(&f.json, "json", false, "print the events that follow as lines of JSON")
	return cmd
}

func newSessionDelete(io stdio) *cobra.Command {
	var f sessionFlags
	cmd := f.setupCommand(&cobra.Command{
		Use:   "delete APPDIR SESSION",
		Short: "Delete a session with its events, state and artifacts",
		Args:  requireArgs(2, 2),
	}, func(ctx context.Context, args []string) error { return deleteSession(ctx, io, &f, args) })
	cmd.Flags().StringVar(&f.user, "user", "user", "whose session it is")
	return cmd
}

func listSessions(ctx context.Context, io stdio, f *sessionFlags, dir string) error {
	st, err := f.openStoreFor(ctx, requireDatabase)
	if err != nil {
		return err
	}
	defer st.Close()
	all, next, err := f.listPage(ctx, st.Sessions, loader.AppName(dir))
	if err != nil {
		return failWith(err)
	}
	if next != "" {
		defer fmt.Fprintf(io.err, "there are more: --page %s\n", next)
	}
	if f.json {
		heads := []any{}
		for _, sess := range all {
			heads = append(heads, sess.Head())
		}
		return printJSON(io, heads)
	}
	w := tabwriter.NewWriter(io.out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "SESSION\tUSER\tEVENTS\tLAST")
	for _, sess := range all {
		fmt.Fprintf(w, "%s\t%s\t%d\t%s\n", sess.ID, sess.User, sess.Version, sess.LastUpdate.Local().Format("2006-01-02 15:04:05"))
	}
	return failWith(w.Flush())
}

func (f *sessionFlags) listPage(ctx context.Context, s *store.Sessions, app string) (all []*session.Session, next string, err error) {
	if f.limit == 0 && f.page == "" {
		all, err = s.List(ctx, app, f.user)
		return all, "", err
	}
	return s.Page(ctx, &store.PageRequest{App: app, User: f.user, Size: cmp.Or(f.limit, 100), Token: f.page})
}

func (f *sessionFlags) sessionKey(args []string) session.Key {
	return session.Key{App: loader.AppName(args[0]), User: f.user, ID: args[1]}
}

func showSession(ctx context.Context, io stdio, f *sessionFlags, args []string) error {
	st, err := f.openStoreFor(ctx, requireDatabase)
	if err != nil {
		return err
	}
	defer st.Close()
	sess, err := st.Sessions.Get(ctx, f.sessionKey(args), nil)
	if err != nil {
		return failWith(err)
	}
	if f.json {
		text, err := session.Form{Provenance: true}.AppendSession(nil, sess)
		if err != nil {
			return failWith(err)
		}
		return printJSON(io, json.RawMessage(text))
	}
	w := tabwriter.NewWriter(io.out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "EVENT\tINVOCATION\tAUTHOR\tWHAT")
	counts := map[*session.Event]bool{}
	for _, ev := range session.WithoutRewound(sess.Events()) {
		counts[ev] = true
	}
	for _, ev := range sess.Events() {
		what := summarizeEvent(ev)
		if ev.Actions.RewindBeforeInvocationID == "" && !counts[ev] {
			what = "(taken back) " + what
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", ev.ID, ev.InvocationID, ev.Author, what)
	}
	if err := w.Flush(); err != nil {
		return failWith(err)
	}
	fmt.Fprint(io.out, "\nstate ")
	return printJSON(io, sess.State.All())
}

// summarizeEvent is what an event says and does, in brief.
func summarizeEvent(ev *session.Event) string {
	var said []string
	if ev.Actions.RewindBeforeInvocationID != "" {
		said = append(said, "(rewind)")
	}
	if c := ev.Actions.Compaction; c != nil {
		said = append(said, "(summary) "+strings.Join(strings.Fields(model.TextOf(c.CompactedContent)), " "))
	}
	if ev.Content != nil {
		for _, p := range ev.Content.Parts {
			switch {
			case p.FunctionCall != nil:
				said = append(said, "→ "+p.FunctionCall.Name+"("+abbreviateJSON(p.FunctionCall.Args)+")")
			case p.FunctionResponse != nil:
				said = append(said, "← "+p.FunctionResponse.Name+" "+abbreviateJSON(p.FunctionResponse.Response))
			case p.Text != "" && !p.Thought:
				said = append(said, strings.Join(strings.Fields(p.Text), " "))
			}
		}
	}
	if ev.Actions.AgentState != nil {
		said = append(said, "(at) "+abbreviateJSON(ev.Actions.AgentState))
	}
	if ev.Actions.EndOfAgent {
		said = append(said, "(end)")
	}
	if ev.ErrorCode != "" {
		said = append(said, "! "+ev.ErrorCode)
	}
	if len(ev.Actions.StateDelta) > 0 {
		said = append(said, "state "+abbreviateJSON(ev.Actions.StateDelta))
	}
	return strings.Join(said, "; ")
}

func rewindSession(ctx context.Context, io stdio, f *sessionFlags, args []string) error {
	key := f.sessionKey(args)
	req := &runtime.RewindRequest{
		App: key.App, UserID: key.User, SessionID: key.ID, BeforeInvocationID: f.before, AfterEventID: f.after,
		Writer: session.WriterAdmin,
	}
	host, err := f.openHost(ctx, io, args)
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
	t := &conversation{io: io, host: host, key: key, json: f.json}
	if len(args) < 3 {
		for _, err := range host.Rewind(ctx, req) {
			return runFailure(err)
		}
		fmt.Fprintf(io.err, "session %s rewound\n", key.ID)
		return nil
	}
	streaming := !f.json
	req.Message, req.Streaming = model.UserText(args[2]), &streaming
	return t.printEvents(host.Rewind(ctx, req))
}

// findTurn is the invocation that the last turns begin with.
func (f *sessionFlags) findTurn(ctx context.Context, st *store.Store, key session.Key) (string, error) {
	if f.before+f.after != "" || f.turns < 0 {
		return "", errors.New("--turns is a number above 0, and stands without --before and --after")
	}
	sess, err := st.Sessions.Get(ctx, key, nil)
	if err != nil {
		return "", failWith(err)
	}
	left := f.turns
	for _, ev := range slices.Backward(session.WithoutRewound(sess.Events())) {
		if ev.Author == session.UserAuthor && ev.Text() != "" && ev.Actions.Compaction == nil {
			if left--; left == 0 {
				return ev.InvocationID, nil
			}
		}
	}
	return "", failWithf("session %s has %d turns, not %d", key.ID, f.turns-left, f.turns)
}

// openHost is one with the app when there is something to say to it, else one
// without apps.
func (f *sessionFlags) openHost(ctx context.Context, io stdio, args []string) (*runtime.Host, error) {
	if len(args) == 3 {
		host, _, err := f.load.openHost(ctx, io, args[0], nil, f.openStore)
		return host, err
	}
	st, err := f.openStoreFor(ctx, requireDatabase)
	if err != nil {
		return nil, err
	}
	return runtime.NewHost(st, nil), nil
}

func deleteSession(ctx context.Context, io stdio, f *sessionFlags, args []string) error {
	st, err := f.openStoreFor(ctx, requireDatabase)
	if err != nil {
		return err
	}
	defer st.Close()
	key := f.sessionKey(args)
	if _, err := st.Sessions.Get(ctx, key, nil); err != nil {
		return failWith(err)
	}
	if err := st.Delete(ctx, key); err != nil {
		return failWith(err)
	}
	fmt.Fprintf(io.err, "session %s deleted\n", key.ID)
	return nil
}
