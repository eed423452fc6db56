package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"agenthost/pkg/loader"
	"agenthost/pkg/model"
	"agenthost/pkg/runtime"
	"agenthost/pkg/session"
	"agenthost/pkg/store"
)

// runFlags are those of run.
type runFlags struct {
	storeFlags
	user, session string
	state         []string
	json          bool
	record        string
}

func newRun(io stdio) *cobra.Command {
	var f runFlags
	cmd := &cobra.Command{
		Use:   "run APPDIR [TEXT]",
		Short: "Talk to an app",
		Long: `Run says TEXT to an app and prints the answer; without TEXT it holds a
conversation. The session is kept, and --session goes on with it.

In a conversation, /state prints the session's state, /session its id, and
/quit ends it.`,
		Args:    cobra.RangeArgs(1, 2),
		PreRunE: fromEnv,
		RunE: func(cmd *cobra.Command, args []string) error {
			return talk(cmd.Context(), io, &f, args)
		},
	}
	flags := cmd.Flags()
	f.add(flags)
	flags.StringVar(&f.session, "session", "", "go on with this session, or begin one with this id")
	flags.StringVar(&f.user, "user", "user", "who is talking")
	flags.StringArrayVar(&f.state, "state", nil, "a state key, KEY=VALUE, set with the first message; may be given again")
	flags.BoolVar(&f.json, "json", false, "print each event as a line of JSON")
	flags.StringVar(&f.record, "record", "", "add what the models answer to this script, for a model of the provider scripted")
	return cmd
}

func talk(ctx context.Context, io stdio, f *runFlags, args []string) error {
	if f.record == "" {
		return talkWith(ctx, io, f, args, nil)
	}
	return recording(f.record, func(opts *loader.Options) error { return talkWith(ctx, io, f, args, opts) })
}

func talkWith(ctx context.Context, io stdio, f *runFlags, args []string, opts *loader.Options) error {
	state, err := parseState(f.state)
	if err != nil {
		return err
	}
	host, app, err := f.newHost(ctx, io, args[0], opts)
	if err != nil {
		return err
	}
	defer host.Store().Close()
	defer host.Close()
	t := &talker{io: io, host: host, state: state, json: f.json}
	if t.key, err = f.key(ctx, host.Store(), app); err != nil {
		return err
	}
	if len(args) == 2 {
		err = t.say(ctx, args[1])
		fmt.Fprintf(io.err, "session %s\n", t.key.ID)
		return err
	}
	return t.converse(ctx)
}

// key names the session, and makes it when it is not there.
func (f *runFlags) key(ctx context.Context, st *store.Store, app string) (session.Key, error) {
	key := session.Key{App: app, User: f.user, ID: f.session}
	if key.ID == "" {
		key.ID = uuid.NewString()
	}
	_, err := st.Sessions.Create(ctx, key, nil)
	if errors.Is(err, session.ErrExists) {
		err = nil
	}
	return key, failed(err)
}

// talker talks to one app in one session.
type talker struct {
	io    stdio
	host  *runtime.Host
	key   session.Key
	state map[string]any
	json  bool
}

// converse reads lines until the end of input, /quit, or ctx's end.
func (t *talker) converse(ctx context.Context) error {
	fmt.Fprintf(t.io.err, "Talking to %s, session %s. /quit ends it.\n", t.key.App, t.key.ID)
	lines := make(chan string)
	go func() {
		defer close(lines)
		for in := bufio.NewScanner(t.io.in); in.Scan(); {
			select {
			case lines <- in.Text():
			case <-ctx.Done():
				return
			}
		}
	}()
	for {
		fmt.Fprint(t.io.err, "> ")
		select {
		case <-ctx.Done():
			return nil
		case line, ok := <-lines:
			if !ok || strings.TrimSpace(line) == "/quit" {
				return nil
			}
			if err := t.answer(ctx, strings.TrimSpace(line)); err != nil {
				fmt.Fprintf(t.io.err, "%s\n", err)
			}
		}
	}
}

// answer carries out a command or says a line.
func (t *talker) answer(ctx context.Context, line string) error {
	switch {
	case line == "":
		return nil
	case line == "/session":
		fmt.Fprintln(t.io.out, t.key.ID)
		return nil
	case line == "/state":
		sess, err := t.host.Store().Sessions.Get(ctx, t.key, nil)
		if err != nil {
			return err
		}
		return printJSON(t.io, sess.State.All())
	case strings.HasPrefix(line, "/"):
		return fmt.Errorf("there is no command %s: the commands are /state, /session and /quit", line)
	}
	return t.say(ctx, line)
}

// say runs one invocation and prints what comes.
func (t *talker) say(ctx context.Context, text string) error {
	streaming := !t.json
	req := &runtime.RunRequest{
		App: t.key.App, UserID: t.key.User, SessionID: t.key.ID,
		Message: model.UserText(text), StateDelta: t.state, Streaming: &streaming,
	}
	t.state = nil
	p := &printer{out: t.io.out, root: t.host.App(t.key.App).Root.Name()}
	for ev, err := range t.host.Run(ctx, req) {
		if err != nil {
			p.end()
			return told(err)
		}
		if err := t.show(p, ev); err != nil {
			return failed(err)
		}
	}
	p.complain()
	p.end()
	return nil
}

func (t *talker) show(p *printer, ev *session.Event) error {
	if !t.json {
		p.event(ev)
		return nil
	}
	b, err := session.AppendEvent(nil, ev)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(t.io.out, "%s\n", b)
	return err
}
