package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/google/uuid"
	"github.com/spf13/cobra"
	"google.golang.org/genai"

	"agenthost/pkg/loader"
	"agenthost/pkg/model"
	"agenthost/pkg/runtime"
	"agenthost/pkg/session"
	"agenthost/pkg/store"
)

// runFlags are those of run.
type runFlags struct {
	storeFlags
	load          loadFlags
	user, session string
	state         []string
	json          bool
	record        string
	resume        bool
	replay        string
}

func newRun(io stdio) *cobra.Command {
	var f runFlags
	cmd := &cobra.Command{
		Use:   "run APPDIR [TEXT]",
		Short: "Talk to an app",
		Long: `Run says TEXT to an app and prints the answer; without TEXT it holds a
conversation. The session is kept, and --session goes on with it.

A call that a person has to approve, or to answer, is asked for in a conversation,
also when it was made in an earlier one. Calls are answered as those of
request_input, get_user_choice and long-running tools are: with a text, or with
JSON, as the call asks for it. An empty line leaves one open, and /answer asks
again.

With --resume it says nothing: it goes on with the session's last invocation,
which was cut off, of an app that is resumable.

A file that is saved during a conversation counts from the next answer on; a
broken one is told and changes nothing.

In a conversation, /state prints the session's state, /session its id, /answer
asks again for what was left open, and /quit ends it.`,
		Args:    requireArgs(1, 2),
		PreRunE: applyEnvironment,
		RunE: func(cmd *cobra.Command, args []string) error {
			return runApp(cmd.Context(), io, &f, args)
		},
	}
	flags := cmd.Flags()
	f.registerFlags(flags)
	f.registerLimits(flags)
	f.load.registerFlags(flags)
	flags.StringVar(&f.session, "session", "", "go on with this session, or begin one with this id")
	flags.StringVar(&f.user, "user", "user", "who is talking")
	flags.StringArrayVar(&f.state, "state", nil, "a state key, KEY=VALUE, set with the first message; may be given again")
	flags.BoolVar(&f.json, "json", false, "print each event as a line of JSON")
	flags.BoolVar(&f.resume, "resume", false, "go on with the last invocation of --session, which was cut off")
	flags.StringVar(&f.record, "record", "", "add what models and tools answer to this script, for --replay and for a model of the provider scripted")
	flags.StringVar(&f.replay, "replay", "", "let models and tools answer from this record; nothing else is asked")
	return cmd
}

func runApp(ctx context.Context, io stdio, f *runFlags, args []string) error {
	switch {
	case f.record != "" && f.replay != "":
		return errors.New("--record and --replay exclude each other: a record is made of what models and tools answer themselves")
	case f.replay != "":
		opts, err := replayOptions(io, f.replay)
		if err != nil {
			return err
		}
		return runAppWith(ctx, io, f, args, opts)
	case f.record == "":
		return runAppWith(ctx, io, f, args, nil)
	}
	return runRecorded(f.record, func(opts *loader.Options) error { return runAppWith(ctx, io, f, args, opts) })
}

func runAppWith(ctx context.Context, io stdio, f *runFlags, args []string, opts *loader.Options) error {
	state, err := parseState(f.state)
	if err != nil {
		return err
	}
	if f.resume && (f.session == "" || len(args) == 2) {
		return errors.New("--resume goes on with what was said in --session: name the session, and leave TEXT out")
	}
	host, app, err := f.load.openHost(ctx, io, args[0], opts, f.openStore)
	if err != nil {
		return err
	}
	defer host.Store().Close()
	defer host.Close()
	t := &conversation{io: io, host: host, state: state, json: f.json}
	if t.key, err = f.ensureSession(ctx, io, session.Key{App: app, User: f.user, ID: f.session}, host.Store()); err != nil {
		return err
	}
	if f.resume {
		err = t.resumeInvocation(ctx)
		t.printPending(ctx, args[0])
		return err
	}
	if len(args) == 2 {
		err = t.sendText(ctx, args[1])
		t.printPending(ctx, args[0])
		fmt.Fprintf(io.err, "session %s\n", t.key.ID)
		return err
	}
	if opts, err = f.load.loaderOptions(opts, args[0]); err != nil {
		return err
	}
	return t.runLoop(ctx, loader.New(opts), args[0])
}

// ensureSession names the session, and makes it when it is not there.
func (f *runFlags) ensureSession(ctx context.Context, io stdio, key session.Key, st *store.Store) (session.Key, error) {
	if key.ID == "" {
		key.ID = uuid.NewString()
	}
	_, err := st.Sessions.Create(ctx, key, nil)
	switch {
	case errors.Is(err, session.ErrExists):
		return key, nil
	case err == nil && f.session != "":
		// A mistyped id would go unnoticed otherwise.
		fmt.Fprintf(io.err, "session %s is new\n", key.ID)
	}
	return key, failWith(err)
}

// conversation talks to one app in one session.
type conversation struct {
	io    stdio
	host  *runtime.Host
	key   session.Key
	state map[string]any
	json  bool
	// lines are those of a conversation.
	lines chan string
	// prompted has the ids of what a person was asked in it.
	prompted map[string]bool
	// reloads is the last of what became of files that were saved, until it is told.
	reloads chan loader.Status
	// reportedRevision is the revision that was told of last.
	reportedRevision string
	// hasProblems says that the last news was of problems.
	hasProblems bool
}

// sendText says a text.
func (t *conversation) sendText(ctx context.Context, text string) error {
	return t.runInvocation(ctx, model.UserText(text))
}

// runInvocation runs one invocation and prints what comes.
func (t *conversation) runInvocation(ctx context.Context, message *genai.Content) error {
	streaming := !t.json
	req := &runtime.RunRequest{
		App: t.key.App, UserID: t.key.User, SessionID: t.key.ID,
		Message: message, StateDelta: t.state, Writer: session.WriterAdmin, Streaming: &streaming,
	}
	t.state = nil
	return t.printEvents(t.host.Run(ctx, req))
}

// resumeInvocation goes on with the invocation that was cut off.
func (t *conversation) resumeInvocation(ctx context.Context) error {
	sess, err := t.host.Store().Sessions.Get(ctx, t.key, nil)
	if err != nil {
		return failWith(err)
	}
	id := runtime.ResumableInvocation(sess.Events())
	if id == "" {
		fmt.Fprintf(t.io.err, "there is nothing to resume: the last invocation of session %s has ended\n", t.key.ID)
		return nil
	}
	streaming := !t.json
	return t.printEvents(t.host.Run(ctx, &runtime.RunRequest{
		App: t.key.App, UserID: t.key.User, SessionID: t.key.ID, InvocationID: id, Streaming: &streaming,
	}))
}

// printEvents prints the events of a run.
func (t *conversation) printEvents(events runtime.Events) error {
	p := &printer{out: t.io.out, root: t.host.App(t.key.App).Root.Name()}
	for ev, err := range events {
		if err != nil {
			p.endLine()
			return runFailure(err)
		}
		if err := t.printEvent(p, ev); err != nil {
			return failWith(err)
		}
	}
	p.flushProblem()
	p.endLine()
	return nil
}

func (t *conversation) printEvent(p *printer, ev *session.Event) error {
	if !t.json {
		p.printEvent(ev)
		return nil
	}
	b, err := session.Form{Provenance: true}.AppendEvent(nil, ev)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(t.io.out, "%s\n", b)
	return err
}
