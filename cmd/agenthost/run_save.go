package main

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"agenthost/internal/command"
	"agenthost/pkg/runtime"
	"agenthost/wing/apptest"
	"agenthost/wing/chat"
	"agenthost/wing/chat/conversation"
	"agenthost/wing/evaluation/eval"
	"agenthost/wing/evaluation/evalfile"
	"agenthost/wing/why"
)

// A savedConversation is a conversation whose session becomes a test or an eval case.
type savedConversation struct {
	*conversation.Conversation
	env  command.Env
	host *runtime.Host
	dir  string
}

// listSaveCommands returns the commands of a conversation that explain its session, and save it in
// the app's folder.
func listSaveCommands(t *conversation.Conversation, env command.Env, host *runtime.Host, dir string) chat.Commands {
	s := &savedConversation{t, env, host, dir}
	return chat.Commands{
		{Name: "/why", Args: "[EVENT]", Help: "explain the last event", Run: s.explainEvent},
		{Name: "/save-test", Args: "[FILE]", Help: "save the session as a test of the app", Complete: chat.SuggestFiles, Run: s.saveTest},
		{Name: "/save-case", Args: "[FILE]", Help: "save the session as an eval case of the app", Complete: chat.SuggestFiles, Run: s.saveCase},
	}
}

func (s *savedConversation) explainEvent(ctx context.Context, event string) error {
	x, err := why.Explain(ctx, &why.Source{Store: s.host.Store(), Loader: newLoader(nil), Rollout: describeRollouts(s.host.Store())}, s.Key(), event)
	if err != nil {
		return err
	}
	return x.WriteText(s.env.Out)
}

// saveTest appends the session as a test to a file, and runs the test, as the command record does.
func (s *savedConversation) saveTest(ctx context.Context, file string) error {
	suite, ds := apptest.OpenSuite(ctx, s.Loader(), s.dir)
	if err := s.env.WriteDiagnostics(ds); err != nil {
		return err
	}
	if suite == nil {
		return fmt.Errorf("%s has problems", s.dir)
	}
	f, record, err := s.newRecord(ctx, cmp.Or(file, filepath.Join(s.dir, "saved.test.yaml")))
	if err != nil {
		return err
	}
	if !strings.HasSuffix(f.out, ".test.yaml") {
		return fmt.Errorf("/save-test must be followed by a file named *.test.yaml, got %s", f.out)
	}
	if err := f.saveTest(ctx, s.env, suite, record); err != nil {
		return err
	}
	fmt.Fprintf(s.env.Err, "saved as test %q in %s\n", record.Name, f.out)
	return nil
}

// saveCase appends the session as an eval case to a file.
func (s *savedConversation) saveCase(ctx context.Context, file string) error {
	f, record, err := s.newRecord(ctx, cmp.Or(file, filepath.Join(s.dir, "saved"+evalfile.Suffix)))
	if err != nil {
		return err
	}
	if !strings.HasSuffix(f.out, evalfile.Suffix) && !strings.HasSuffix(f.out, eval.SetSuffix) {
		return fmt.Errorf("/save-case must be followed by a file named *%s or *%s, got %s", evalfile.Suffix, eval.SetSuffix, f.out)
	}
	if err := f.recordCase(s.env, &evalfile.Record{Name: record.Name, Session: record.Session, Initial: record.Initial}); err != nil {
		return err
	}
	fmt.Fprintf(s.env.Err, "saved as case %q in %s\n", record.Name, f.out)
	return nil
}

// newRecord returns the session as a record. Its name is the session's, with a number if the file
// has it already.
func (s *savedConversation) newRecord(ctx context.Context, file string) (*recordFlags, *apptest.Record, error) {
	st := s.host.Store()
	record := &apptest.Record{Name: s.Key().ID}
	var err error
	if record.Session, err = s.Session(ctx); err != nil {
		return nil, nil, err
	}
	if record.Initial, err = st.Sessions.Initial(ctx, s.Key()); err != nil {
		return nil, nil, err
	}
	file = chat.ExpandHome(strings.Trim(file, `"`))
	if written, err := os.ReadFile(file); err == nil {
		for n := 2; strings.Contains(string(written), record.Name) && n < 1000; n++ {
			record.Name = fmt.Sprintf("%s-%d", s.Key().ID, n)
		}
	}
	return &recordFlags{out: file, name: record.Name}, record, nil
}
