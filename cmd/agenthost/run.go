package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"

	"github.com/spf13/cobra"
	"google.golang.org/genai"

	"agenthost/internal/command"
	"agenthost/internal/terminal"
	"agenthost/pkg/loader"
	"agenthost/pkg/runtime"
	"agenthost/pkg/session"
	"agenthost/pkg/store"
	"agenthost/wing/chat"
	"agenthost/wing/chat/conversation"
	connections "agenthost/wing/connection"
	"agenthost/wing/connection/authorize"
	"agenthost/wing/live"
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
	state, err := command.ParseState(f.state)
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
	var costs conversation.Costs
	f.load.Observe = costs.AddCall
	person, err := conversation.OpenTerminal(env, &costs, f.plain || f.json || f.resume || len(args) == 2)
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
	loading, err := f.load.LoaderOptions(opts, args[0])
	if err != nil {
		return err
	}
	t, err := conversation.Open(ctx, conversation.Options{
		Env: env, Host: host, Key: session.Key{App: app, User: f.user, ID: f.session}, MustExist: f.resume, State: state,
		Dir: args[0], Loading: loading, JSON: f.json, Costs: &costs, Terminal: person,
		FindConsent: findConsent(auth), CanAuthorize: auth.IsEnabled(), StartLive: startLive(host),
		ListCommands:         func(t *conversation.Conversation) chat.Commands { return listSaveCommands(t, env, host, args[0]) },
		DescribeContinuation: func(id string) string { return f.continueCommand(args[0], id) },
	})
	switch {
	case err != nil:
		return f.AddLocation(err)
	case f.resume:
		return t.Resume(ctx)
	case len(args) == 2:
		return t.Send(ctx, args[1], f.live)
	}
	fmt.Fprintf(env.Err, "Sessions are in %s.\n", f.DescribeDatabase())
	return t.Talk(ctx, f.live)
}

// openOutput returns the stream in place of a standard one: that of the conversation's terminal, or
// with --plain one without colours and without a width. With wrap, the former breaks long lines
// between words.
func (f *runFlags) openOutput(w io.Writer, person *chat.Terminal, wrap bool) io.Writer {
	switch {
	case !terminal.IsTerminal(w):
		return w
	case person != nil:
		return person.NewOutput(wrap)
	case f.plain:
		return terminal.NewOutput(terminal.Unfiltered(w), terminal.Settings{Terminal: true})
	}
	return w
}

// findConsent returns what authorizes the connection for a call. Auth is nil in a command without
// a person who can.
func findConsent(auth *authorize.Authorizer) func(call *genai.FunctionCall) *conversation.Consent {
	return func(call *genai.FunctionCall) *conversation.Consent {
		c := authorize.NewCall(call)
		if c == nil {
			return nil
		}
		return &conversation.Consent{
			Connection: c.Connection, Pending: c.DescribePending(),
			Authorize: func(ctx context.Context, key session.Key, lines <-chan string) (map[string]any, error) {
				response, err := auth.AuthorizeCall(ctx, c, key, lines)
				if err != nil {
					return nil, c.WrapError(err)
				}
				return response, nil
			},
		}
	}
}

// startLive begins live runs of a host.
func startLive(host *runtime.Host) func(ctx context.Context, key session.Key) *conversation.LiveRun {
	return func(ctx context.Context, key session.Key) *conversation.LiveRun {
		queue := live.NewQueue()
		return &conversation.LiveRun{
			Events: live.Run(ctx, host, &live.RunRequest{App: key.App, UserID: key.User, SessionID: key.ID, Requests: queue, Writer: session.WriterAdmin}),
			Send: func(ctx context.Context, message *genai.Content, state map[string]any) error {
				return queue.Send(ctx, &live.Request{Content: message, StateDelta: state})
			},
			Close: queue.Close,
		}
	}
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
