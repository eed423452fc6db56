// Package replaycommand has the command replay.
package replaycommand

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"agenthost/internal/command"
	"agenthost/internal/terminal"
	"agenthost/pkg/loader"
	"agenthost/pkg/session"
	"agenthost/pkg/spec"
	"agenthost/pkg/store"
	"agenthost/wing/replay"
)

// replayFlags are the flags for replay.
type replayFlags struct {
	command.StoreFlags
	load    command.LoadFlags
	since   string
	sample  int
	session string
	user    string
	values  bool
	json    bool
	// model is recorded or live.
	model    string
	maxUSD   float64
	runTools []string
	// cases is the file for eval cases.
	cases string
	save  CaseWriter
}

// A CaseWriter adds stored sessions to an eval file or set, each as a case, and returns how many it added.
type CaseWriter func(ctx context.Context, env command.Env, st *store.Store, file string, keys []session.Key) (added int, err error)

// Commands returns the command replay. save writes its --save-cases.
func Commands(env command.Env, save CaseWriter) []*cobra.Command {
	f := replayFlags{save: save}
	cmd := f.SetupCommand(env, &cobra.Command{
		Use:   "replay APPDIR",
		Short: "Run stored sessions on these files and show what differs",
		Long: `Replay runs the turns of stored sessions again, on the files of APPDIR and on the revision
that answered them. Models and tools answer from the record; nothing is called and nothing
is stored. With --model live the app's models answer, on both revisions, and their providers
get the sessions' messages again. A difference counts if the revision that answered does not have it as well. The
exit status is 0 when nothing or only texts differ, 4 when something else does, and 1 when
the app has problems.`,
		Args: command.RequireArgs(1, 1),
	}, command.ReadDatabase, func(ctx context.Context, st *store.Store, args []string) error {
		return f.replayApp(ctx, env, st, args[0])
	})
	flags := cmd.Flags()
	f.load.RegisterFlags(env, flags)
	flags.StringVar(&f.since, "since", "", "replay sessions with an event newer than this, such as 24h (default: replay in app.yaml, else 7d)")
	flags.IntVar(&f.sample, "sample", 0, "maximum number of sessions (default: replay in app.yaml, else 200)")
	flags.StringVar(&f.session, "session", "", "replay only this session")
	flags.StringVar(&f.user, "user", "user", "user of --session")
	flags.StringVar(&f.model, "model", "recorded", "recorded: models answer from the record; live: the app's models are called, at most for --max-usd")
	flags.Float64Var(&f.maxUSD, "max-usd", 0, "ceiling in US dollars for the whole replay with --model live")
	flags.StringArrayVar(&f.runTools, "run-tool", nil, "with --model live: tool that runs, with its effects, when the record has no answer; can be repeated")
	flags.StringVar(&f.cases, "save-cases", "", "add the sessions that differ as cases to this file, such as shop/found.eval.yaml; the recorded answers are what they expect")
	flags.BoolVar(&f.values, "show", false, "print the texts and values that differ")
	command.RegisterOutput(flags, &f.json, false)
	return []*cobra.Command{cmd}
}

// replayApp runs a replay and prints its report.
func (f *replayFlags) replayApp(ctx context.Context, env command.Env, st *store.Store, dir string) error {
	opts, err := f.load.LoaderOptions(nil, dir)
	if err != nil {
		return err
	}
	req := &replay.Request{Loader: env.NewLoader(opts), Dir: dir, Store: st, Now: time.Now()}
	if err := f.applyFlags(req); err != nil {
		return err
	}
	report, ds, err := replay.PlaySessions(ctx, req)
	if err != nil {
		return command.FailWith(err)
	}
	if report == nil {
		if err := env.WriteDiagnostics(ds); err != nil {
			return err
		}
		return &command.ExitError{Code: command.ExitProblems, Err: fmt.Errorf("cannot replay sessions on app %s: its files have problems", loader.AppName(dir))}
	}
	if req.Session != nil && report.Gone > 0 {
		return command.FailWithf("user %s has no session %s in app %s", f.user, f.session, report.App)
	}
	if !f.values {
		report.HideValues()
	}
	if f.json {
		err = env.PrintJSON(report)
	} else {
		err = command.FailWith(printReport(env, report))
	}
	if err == nil {
		err = f.saveCases(ctx, env, st, report)
	}
	if err == nil && report.CountWithout(replay.ClassText) > 0 {
		err = &command.ExitError{Code: command.ExitChanges}
	}
	return err
}

// maxCases limits the eval cases of a replay.
const maxCases = 100

// saveCases adds the sessions that differ in more than texts to the file of --save-cases.
func (f *replayFlags) saveCases(ctx context.Context, env command.Env, st *store.Store, report *replay.Report) error {
	if f.cases == "" {
		return nil
	}
	var keys []session.Key
	for _, d := range report.Differences {
		if d.Class != replay.ClassText && len(keys) < maxCases {
			keys = append(keys, session.Key{App: report.App, User: d.User, ID: d.Session})
		}
	}
	added, err := f.save(ctx, env, st, f.cases, keys)
	if err == nil {
		fmt.Fprintf(env.Err, "agenthost: added %s to %s\n", command.FormatCount(added, "case"), f.cases)
	}
	return err
}

// applyFlags sets the sessions that the flags select.
func (f *replayFlags) applyFlags(req *replay.Request) error {
	if err := f.applyLive(req); err != nil {
		return err
	}
	if f.session != "" {
		if f.since != "" || f.sample != 0 {
			return errors.New("--session selects one session, without --since and --sample")
		}
		req.Session = &session.Key{App: loader.AppName(req.Dir), User: f.user, ID: f.session}
		return nil
	}
	var age spec.Duration
	if f.since != "" {
		if ds := age.DecodeSpec(&spec.Node{Kind: spec.Scalar, Value: f.since}); ds.HasErrors() || age <= 0 || time.Duration(age) > replay.MaxSince {
			return fmt.Errorf("--since must be a duration above zero and at most 365d, such as 24h, got %q", f.since)
		}
	}
	if f.sample < 0 || f.sample > replay.MaxSample {
		return fmt.Errorf("--sample must be from 1 to %d, got %d", replay.MaxSample, f.sample)
	}
	req.Adjust = func(rules *replay.Rules) {
		rules.Since, rules.Sample = cmp.Or(time.Duration(age), rules.Since), cmp.Or(f.sample, rules.Sample)
	}
	return nil
}

// applyLive sets the grant for live models.
func (f *replayFlags) applyLive(req *replay.Request) error {
	switch {
	case f.model == "recorded" && (f.maxUSD != 0 || len(f.runTools) > 0):
		return errors.New("--max-usd and --run-tool require --model live")
	case f.model == "recorded":
		return nil
	case f.model != "live":
		return fmt.Errorf("--model must be recorded or live, got %q", f.model)
	case !(f.maxUSD > 0 && f.maxUSD <= maxMaxUSD):
		return fmt.Errorf("--model live requires --max-usd, above 0 and at most %d, got %v", maxMaxUSD, f.maxUSD)
	}
	req.Live = &replay.Live{MaxUSD: f.maxUSD, Tools: f.runTools}
	return nil
}

// maxMaxUSD limits --max-usd.
const maxMaxUSD = 10_000

// printReport prints a report for people.
func printReport(env command.Env, r *replay.Report) error {
	if r.Sessions == 0 {
		fmt.Fprintf(env.Out, "%s: no session to replay%s\n", r.App, describeRest(r))
		return nil
	}
	fmt.Fprintf(env.Out, "%s: %s with %s on revision %s: %d same", r.App, command.FormatCount(r.Sessions, "session"), command.FormatCount(r.Turns, "turn"), r.Revision, r.Same)
	if texts := r.Counts[replay.ClassText]; texts > 0 {
		fmt.Fprintf(env.Out, ", %d text only", texts)
	}
	if n := r.CountWithout(replay.ClassText); n > 0 {
		fmt.Fprintf(env.Out, ", %d differ", n)
	}
	fmt.Fprintf(env.Out, "%s\n", describeRest(r))
	if r.Live {
		fmt.Fprintf(env.Out, "%s, %.4f US dollars\n", command.FormatCount(r.Calls, "model call"), r.USD)
	}
	if len(r.Differences) == 0 {
		fmt.Fprintf(env.Out, "at most %.3g %% of the sessions differ, with 95 %% confidence\n", 100*r.Most)
	} else if err := printDifferences(env, r); err != nil {
		return err
	}
	return printIncomparable(env, r)
}

// describeRest describes the sessions that are not in the counts.
func describeRest(r *replay.Report) string {
	var parts []string
	for _, part := range []struct {
		n    int
		text string
	}{
		{r.Unpaired, "compared with the record alone, without their revision"},
		{r.Gone, "deleted meanwhile"},
		{r.Unreadable, "without a turn to replay"},
		{r.Unplayed, "not replayed, since --max-usd was reached"},
	} {
		if part.n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", part.n, part.text))
		}
	}
	if len(parts) == 0 {
		return ""
	}
	return " (" + strings.Join(parts, ", ") + ")"
}

// maxPrinted limits the lines of a table; --output json has all.
const maxPrinted = 50

func printDifferences(env command.Env, r *replay.Report) error {
	fmt.Fprintln(env.Out)
	table := terminal.NewTable(terminal.Column{Title: "DIFFERS"}, terminal.Column{Title: "USER"}, terminal.Column{Title: "SESSION", Whole: true}, terminal.Column{Title: "TURN", Right: true}, terminal.Column{Title: "FIRST DIFFERENCE"}, terminal.Column{Title: "CHANGED LINES"})
	for _, d := range r.Differences[:min(len(r.Differences), maxPrinted)] {
		table.AddRow(string(d.Class), d.User, d.Session, fmt.Sprint(d.Turn), d.Place, strings.Join(d.Lines, ", "))
	}
	if err := table.Print(env.Out); err != nil {
		return err
	}
	if more := len(r.Differences) - maxPrinted; more > 0 {
		fmt.Fprintf(env.Out, "and %d more: --output json has all\n", more)
	}
	for _, d := range r.Differences[:min(len(r.Differences), maxPrinted)] {
		if d.Before != "" || d.After != "" {
			fmt.Fprintf(env.Out, "\n%s turn %d\n  before  %s\n  after   %s\n", terminal.CleanLine(d.Session), d.Turn, terminal.CleanLine(d.Before), terminal.CleanLine(d.After))
		}
	}
	return nil
}

// printIncomparable prints how many turns the old revision does not repeat, by reason.
func printIncomparable(env command.Env, r *replay.Report) error {
	counts := map[string]int{}
	var reasons []string
	for _, c := range r.Incomparable {
		if counts[c.Reason]++; counts[c.Reason] == 1 {
			reasons = append(reasons, c.Reason)
		}
	}
	if len(reasons) == 0 {
		return nil
	}
	fmt.Fprintf(env.Out, "\n%s cannot be compared, because the revision that answered does not repeat them:\n", command.FormatCount(len(r.Incomparable), "turn"))
	for _, reason := range reasons[:min(len(reasons), maxPrinted)] {
		fmt.Fprintf(env.Out, "  %d  %s\n", counts[reason], terminal.CleanLine(reason))
	}
	return nil
}
