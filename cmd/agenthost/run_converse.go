package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"

	"agenthost/pkg/loader"
)

// converse reads lines until the end of input, /quit, or ctx's end. Meanwhile
// it takes in what is saved in dir.
func (t *talker) converse(ctx context.Context, l *loader.Loader, dir string) error {
	ctx, cancel := context.WithCancel(ctx)
	var watching sync.WaitGroup
	defer watching.Wait()
	defer cancel()
	t.news = make(chan loader.Status, 1)
	t.serving = t.host.App(t.key.App).Revision
	watching.Go(func() { t.follow(ctx, l, dir) })
	fmt.Fprintf(t.io.err, "Talking to %s, session %s. /quit ends it.\n", t.key.App, t.key.ID)
	prompt := ""
	if isTerminal(t.io.in) {
		prompt = "> "
	}
	t.lines, t.asked = make(chan string), map[string]bool{}
	go func() {
		defer close(t.lines)
		for in := bufio.NewScanner(t.io.in); in.Scan(); {
			select {
			case t.lines <- in.Text():
			case <-ctx.Done():
				return
			}
		}
	}()
	for t.settle(ctx) {
		line, ok := t.read(ctx, prompt)
		if !ok {
			return nil
		}
		if err := t.answer(ctx, line); err != nil {
			fmt.Fprintf(t.io.err, "%s\n", err)
		}
	}
	return nil
}

// read reads a line; false at the end of input, at /quit, and at ctx's end.
func (t *talker) read(ctx context.Context, prompt string) (string, bool) {
	fmt.Fprint(t.io.err, prompt)
	for {
		select {
		case <-ctx.Done():
			return "", false
		case s := <-t.news:
			before := ""
			if prompt != "" {
				before = "\n"
			}
			if t.tellNews(s, before) {
				fmt.Fprint(t.io.err, prompt)
			}
		case line, ok := <-t.lines:
			t.tellKept()
			line = strings.TrimSpace(line)
			return line, ok && line != "/quit"
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
	case line == "/answer":
		clear(t.asked) // settle asks
		return nil
	case line == "/state":
		sess, err := t.host.Store().Sessions.Get(ctx, t.key, nil)
		if err != nil {
			return err
		}
		return printJSON(t.io, sess.State.All())
	case strings.HasPrefix(line, "/"):
		return fmt.Errorf("there is no command %s: the commands are /state, /session, /answer and /quit", line)
	}
	return t.say(ctx, line)
}

// isTerminal says whether somebody types there.
func isTerminal(in io.Reader) bool {
	f, ok := in.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}
