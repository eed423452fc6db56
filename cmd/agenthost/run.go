package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"regexp"
	"strings"

	"github.com/google/uuid"
	"github.com/spf13/cobra"
	"google.golang.org/genai"

	"agenthost/internal/command"
	"agenthost/pkg/loader"
	"agenthost/pkg/model"
	"agenthost/pkg/runtime"
	"agenthost/pkg/session"
	"agenthost/pkg/store"
	"agenthost/wing/chat"
	connections "agenthost/wing/connection"
	"agenthost/wing/connection/authorize"
)

// defaultUser is the default of --user.
const defaultUser = "user"

// runFlags are the flags for run.
type runFlags struct {
	command.StoreFlags
	load          command.LoadFlags
	authorize     authorize.TerminalFlags
	user, session string
	state         []string
	json          bool
	record        string
	resume, live  bool
	plain         bool
	replay        string
}

func newRunCommand(env command.Env) *cobra.Command {
	var f runFlags
	cmd := &cobra.Command{
		Use:   "run APPDIR [TEXT]",
		Short: "Talk to an app",
		Long: `Run sends TEXT to an app and prints the answer; without TEXT it starts a
conversation. The session is stored, and --session continues it.

A conversation prompts for tool calls that wait for a confirmation or an answer,
including calls from earlier conversations. Answer calls of request_input,
get_user_choice and long-running tools with text or JSON, as the call requires. An
empty line leaves a call pending, and /answer prompts for it again.

A connection that you have not authorized prints an address to open in a browser, and
the call continues after you have authorized it. With TEXT, this requires a terminal or
--authorize. Tokens are in memory, or with --credentials-key in the session database.

With --live the conversation is a live one: you can write while the agent answers, which
interrupts it, and speech is printed as its transcript. Lines that do not come from a
terminal wait for the end of the answer.

With --resume it sends no message: it resumes the last invocation of the session,
which was interrupted. The app must be resumable.

Files that you save during a conversation apply from the next answer on; a file with
errors is reported and changes nothing.

In a terminal, keys edit the message as in a shell: the arrows show earlier messages, ^R
searches them, alt+enter, ^J or a backslash at the end begins another line, and a pasted
text is one message. Messages are stored in agenthost/history.jsonl in the user's folder
for state (XDG_STATE_HOME), except those that begin with a space. --plain prints only
lines, without colours and without redrawing, for screen readers.

^C stops the answer, and the conversation continues. At the prompt, ^C twice, ^D or
/quit ends the conversation and prints the command that continues it. /help lists the
commands of a conversation, such as /state, /retry, /fork and /save-test.`,
		Args:    command.RequireArgs(1, 2),
		PreRunE: command.ApplyEnvironment,
		RunE: func(cmd *cobra.Command, args []string) error {
			return runApp(cmd.Context(), env, &f, args)
		},
	}
	flags := cmd.Flags()
	f.RegisterFlags(env, flags)
	f.RegisterLimits(flags)
	f.load.RegisterFlags(env, flags)
	f.authorize.RegisterFlags(flags)
	flags.StringVar(&f.session, "session", "", "continue this session, or start one with this ID")
	flags.StringVar(&f.user, "user", defaultUser, "user ID")
	flags.StringArrayVar(&f.state, "state", nil, "state to set with the first message, as KEY=VALUE; repeatable")
	command.RegisterOutput(flags, &f.json, true)
	flags.BoolVar(&f.live, "live", false, "hold a live conversation, by text")
	flags.BoolVar(&f.resume, "resume", false, "resume the last, interrupted invocation of --session")
	flags.StringVar(&f.record, "record", "", "append model and tool responses to this script, for --replay and for scripted models")
	flags.BoolVar(&f.plain, "plain", false, "in a terminal, print only plain lines: nothing is redrawn, no colours, no status line; for screen readers")
	flags.StringVar(&f.replay, "replay", "", "replay model and tool responses from this record, without calling them")
	return cmd
}

func runApp(ctx context.Context, env command.Env, f *runFlags, args []string) error {
	switch {
	case f.record != "" && f.replay != "":
		return errors.New("--record and --replay cannot be combined: a replay calls no models or tools to record")
	case f.replay != "":
		opts, err := replayOptions(env, f.replay)
		if err != nil {
			return err
		}
		return runAppWith(ctx, env, f, args, opts)
	case f.record == "":
		return runAppWith(ctx, env, f, args, nil)
	}
	return runRecorded(f.record, func(opts *loader.Options) error { return runAppWith(ctx, env, f, args, opts) })
}

func runAppWith(ctx context.Context, env command.Env, f *runFlags, args []string, opts *loader.Options) error {
	state, err := parseState(f.state)
	if err != nil {
		return err
	}
	f.PrintLocation(env, args[0])
	if f.resume && (f.session == "" || len(args) == 2) {
		return errors.New("--resume requires --session and does not accept TEXT")
	}
	if f.resume && f.live {
		return errors.New("--resume and --live cannot be combined: a live run continues the session, not its last invocation")
	}
	var spent costMeter
	f.load.Observe = spent.addCall
	person, err := f.openTerminal(env, args, &spent)
	if err != nil {
		return err
	}
	if person != nil {
		defer person.Close()
		defer context.AfterFunc(ctx, person.Close)() // also if a blocked disk or program delays the end
	}
	env.Out, env.Err = f.openOutput(env.Out, person, false), f.openOutput(env.Err, person, true)
	f.load.SetErrorOutput(env.Err)
	auth, err := f.authorize.NewAuthorizer(env, &f.load.Reserved, f.SessionDB)
	if err != nil {
		return err
	}
	if opts == nil {
		opts = &loader.Options{}
	}
	env.Kinds.Connections = connections.NewKind(auth.Grants)
	f.load.SetConnections(env.Kinds.Connections, auth.Grants)
	host, app, err := f.load.OpenHost(ctx, args[0], opts, f.OpenStore)
	if err != nil {
		return err
	}
	auth.UseStore(host.Store())
	defer host.Store().Close()
	defer host.Close()
	t := &conversation{env: env, host: host, state: state, json: f.json, spent: &spent, authorizer: auth, person: person}
	t.key = session.Key{App: app, User: f.user, ID: f.session}
	if err = t.findSession(ctx, f); err != nil {
		return err
	}
	if f.resume {
		if err = t.resumeInvocation(ctx); err == nil {
			err = t.authorizePending(ctx)
		}
		t.printPending(ctx, f.continueCommand(args[0], t.key.ID))
		return err
	}
	if len(args) == 2 {
		send := t.sendText
		if f.live {
			send = t.sendLive
		}
		if err = send(ctx, args[1]); err == nil {
			err = t.authorizePending(ctx)
		}
		t.printPending(ctx, f.continueCommand(args[0], t.key.ID))
		if t.stored {
			fmt.Fprintf(env.Err, "session %s\n", t.key.ID)
		}
		return err
	}
	if opts, err = f.load.LoaderOptions(opts, args[0]); err != nil {
		return err
	}
	fmt.Fprintf(env.Err, "Sessions are in %s.\n", f.DescribeDatabase())
	defer func() { t.printContinue(f.continueCommand(args[0], t.key.ID)) }()
	t.dir, t.options = args[0], opts
	if f.live {
		return t.runLiveLoop(ctx)
	}
	return t.runLoop(ctx)
}

// continueCommand returns the command that continues a session, without passwords, or "" if
// the session ends with this process.
func (f *runFlags) continueCommand(dir, id string) string {
	if strings.HasPrefix(f.SessionDB, "memory:") {
		return ""
	}
	args := []string{"agenthost", "run", dir, "--session", id}
	if f.user != defaultUser {
		args = append(args, "--user", f.user)
	}
	if !f.IsDefaultDatabase() && os.Getenv(command.FlagVariable("session-db")) != f.SessionDB {
		args = append(args, "--session-db", store.Redacted(f.SessionDB))
	}
	if f.live {
		args = append(args, "--live")
	}
	for i, arg := range args {
		args[i] = quoteShell(arg)
	}
	return strings.Join(args, " ")
}

// plainArgument matches arguments that a shell reads as they are.
var plainArgument = regexp.MustCompile(`^[A-Za-z0-9_@%+=:,./-]+$`)

// quoteShell quotes an argument for a POSIX shell if it needs quotes.
func quoteShell(arg string) string {
	if plainArgument.MatchString(arg) {
		return arg
	}
	return "'" + strings.ReplaceAll(arg, "'", `'\''`) + "'"
}

// findSession finds out whether the session is stored, and gives a new one its ID. One that is to be
// resumed must be stored.
func (t *conversation) findSession(ctx context.Context, f *runFlags) error {
	if t.key.ID == "" {
		t.key.ID = uuid.NewString()
		return nil
	}
	_, err := t.host.Store().Sessions.Get(ctx, t.key, nil)
	switch {
	case !errors.Is(err, session.ErrNotFound):
		t.stored = err == nil
		return command.FailWith(err)
	case f.resume:
		return f.AddLocation(fmt.Errorf("session %s: %w", t.key.ID, session.ErrNotFound))
	}
	// Report it, because the ID may be misspelt.
	fmt.Fprintf(t.env.Err, "session %s is new\n", t.key.ID)
	return nil
}

// storeSession creates the session before its first message. A conversation without a message
// leaves no session.
func (t *conversation) storeSession(ctx context.Context) error {
	if t.stored {
		return nil
	}
	_, err := t.host.Store().Sessions.Create(ctx, t.key, nil)
	if err != nil && !errors.Is(err, session.ErrExists) {
		return command.FailWith(err)
	}
	t.stored = true
	return nil
}

// A conversation is a session with one app in the terminal.
type conversation struct {
	env  command.Env
	host *runtime.Host
	key  session.Key
	// stored reports that the session exists in the store.
	stored bool
	state  map[string]any
	json   bool
	spent  *costMeter
	// authorizer lets the user authorize connections.
	authorizer *authorize.Authorizer
	// lines receives the lines that the user types.
	lines <-chan string
	// person is the terminal that the conversation has; nil if it reads and prints plain lines.
	person *chat.Terminal
	// lastAnswer is the text of the last answer, for /copy.
	lastAnswer string
	// commands are those that the user can type.
	commands chat.Commands
	// attached are the files that go with the next message, and replaces is the invocation that it
	// replaces, or empty.
	attached []*genai.Part
	replaces string
	// dir is the app's folder; loader loads it for reloads, with the options.
	dir     string
	loader  *loader.Loader
	options *loader.Options
	// stopWatching ends the reloads, until watchContext ends or startWatching begins them again.
	watchContext context.Context
	stopWatching func()
	// releaseModel releases the model that answers for all agents.
	releaseModel func()
	// prompted has the call IDs that the user was prompted for.
	prompted map[string]bool
	// reloads holds the latest reload status until it is printed.
	reloads chan loader.Status
	// reportedRevision is the revision of the last printed status.
	reportedRevision string
	// hasProblems reports that the last reload failed.
	hasProblems bool
}

// sendText sends a user message and prints the answer.
func (t *conversation) sendText(ctx context.Context, text string) error {
	return t.runInvocation(ctx, t.buildMessage(text))
}

// runInvocation runs one invocation and prints its events.
func (t *conversation) runInvocation(ctx context.Context, message *genai.Content) error {
	if err := t.storeSession(ctx); err != nil {
		return err
	}
	streaming := !t.json
	req := &runtime.RunRequest{
		App: t.key.App, UserID: t.key.User, SessionID: t.key.ID,
		Message: message, StateDelta: t.state, Writer: session.WriterAdmin, Streaming: &streaming,
		ClientLeft: func() bool { return command.IsAnswerStopped(ctx) },
	}
	t.state = nil
	return t.runRequest(ctx, req)
}

// resumeInvocation resumes the session's last invocation, which was interrupted.
func (t *conversation) resumeInvocation(ctx context.Context) error {
	sess, err := t.host.Store().Sessions.Get(ctx, t.key, nil)
	if err != nil {
		return command.FailWith(err)
	}
	id := runtime.ResumableInvocation(sess.Events())
	if id == "" {
		fmt.Fprintf(t.env.Err, "nothing to resume: the last invocation of session %s is complete\n", t.key.ID)
		return nil
	}
	streaming := !t.json
	return t.runRequest(ctx, &runtime.RunRequest{
		App: t.key.App, UserID: t.key.User, SessionID: t.key.ID, InvocationID: id, Streaming: &streaming,
	})
}

// runRequest runs a request and prints its events, and then its cost. A model call that waits
// is reported at once.
func (t *conversation) runRequest(ctx context.Context, req *runtime.RunRequest) error {
	req.OnModelWait = t.printWait
	defer t.printCost()
	t.spent.beginTurn()
	defer t.spent.endTurn()
	return t.printEvents(t.host.Run(ctx, req))
}

func (t *conversation) printWait(wait model.Wait) { fmt.Fprintln(t.env.Err, wait) }

// printEvents prints a run's events.
func (t *conversation) printEvents(events runtime.Events) error {
	p := t.newPrinter()
	for ev, err := range events {
		if err != nil {
			p.endLine()
			return runFailure(err)
		}
		if err := t.printEvent(p, ev); err != nil {
			return command.FailWith(err)
		}
	}
	p.flushProblem()
	p.endLine()
	return nil
}

func (t *conversation) printEvent(p eventPrinter, ev *session.Event) error {
	if !t.json {
		p.printEvent(ev)
		return nil
	}
	b, err := session.Form{Provenance: true}.AppendEvent(nil, ev)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(t.env.Out, "%s\n", b)
	return err
}
