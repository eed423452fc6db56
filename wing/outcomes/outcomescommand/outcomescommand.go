// Package outcomescommand has the commands outcomes and cost.
package outcomescommand

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"agenthost/internal/command"
	"agenthost/internal/statistics"
	"agenthost/internal/terminal"
	"agenthost/pkg/loader"
	"agenthost/pkg/spec"
	"agenthost/pkg/store"
	"agenthost/wing/outcomes"
)

// Commands returns the commands outcomes and cost.
func Commands(env command.Env) []*cobra.Command {
	return []*cobra.Command{newOutcomesCommand(env), newCostCommand(env)}
}

// A rowPrinter prints a summary grouped by these keys.
type rowPrinter func(env command.Env, by []string, s *outcomes.Summary) error

// outcomeFlags are the flags for outcomes and cost.
type outcomeFlags struct {
	command.StoreFlags
	by    string
	user  string
	since string
	limit int
	json  bool
}

func newOutcomesCommand(env command.Env) *cobra.Command {
	var f outcomeFlags
	return f.setupCommand(env, &cobra.Command{
		Use:   "outcomes APPDIR",
		Short: "Show failures, latencies and scores by revision",
		Long: `Outcomes shows what came out of the turns of an app's stored sessions: failures with
their most frequent code, seconds, tool errors, confirmations, people's scores, and passed evaluation cases. ± and ..
are 95 % intervals. APPDIR is the app's folder; the app is not loaded.`,
		Args: command.RequireArgs(1, 1),
	}, printOutcomes)
}

func newCostCommand(env command.Env) *cobra.Command {
	var f outcomeFlags
	return f.setupCommand(env, &cobra.Command{
		Use:   "cost APPDIR",
		Short: "Show tokens and cost by agent, revision, user, day or protocol",
		Long: `Cost sums up the tokens and the cost of an app's stored sessions. Models have a cost if
they have a price; PRICED is the share of model calls that have one. APPDIR is the app's
folder; the app is not loaded.`,
		Args: command.RequireArgs(1, 1),
	}, printCost)
}

// setupCommand adds the flags, and the function that prints a summary.
func (f *outcomeFlags) setupCommand(env command.Env, cmd *cobra.Command, printRows rowPrinter) *cobra.Command {
	f.SetupCommand(env, cmd, command.ReadDatabase, func(ctx context.Context, st *store.Store, args []string) error {
		return f.printSummary(ctx, env, st, loader.AppName(args[0]), printRows)
	})
	cmd.Flags().StringVar(&f.by, "by", "revision", "group by these: agent, revision, user, day, protocol, separated by commas")
	cmd.Flags().StringVar(&f.user, "user", "", "count only the sessions of this user (default: all users)")
	cmd.Flags().StringVar(&f.since, "since", "", "omit UTC days that ended earlier ago than this, such as 7d (default: all)")
	cmd.Flags().IntVar(&f.limit, "limit", store.DefaultOutcomeSessions, "maximum number of sessions, the latest created ones")
	command.RegisterOutput(cmd.Flags(), &f.json, false)
	return cmd
}

// printSummary reads and prints an app's outcomes.
func (f *outcomeFlags) printSummary(ctx context.Context, env command.Env, st *store.Store, app string, printRows rowPrinter) error {
	req := &outcomes.Request{OutcomeRequest: store.OutcomeRequest{App: app, User: f.user, MaxSessions: f.limit}}
	var err error
	if req.By, err = outcomes.ParseKeys(f.by); err != nil {
		return fmt.Errorf("--by: %w", err)
	}
	if f.limit < 1 {
		return fmt.Errorf("--limit must be at least 1, got %d", f.limit)
	}
	if f.since != "" {
		var age spec.Duration
		if ds := age.DecodeSpec(&spec.Node{Kind: spec.Scalar, Value: f.since}); ds.HasErrors() || age == 0 {
			return fmt.Errorf("--since must be a duration above zero, such as 7d or 12h, got %q", f.since)
		}
		req.Since = time.Now().Add(-time.Duration(age))
	}
	s, err := outcomes.Summarize(ctx, st, req)
	if err != nil {
		return command.FailWith(err)
	}
	if s.More {
		fmt.Fprintf(env.Err, "only the latest %s are counted; hint: raise --limit\n", command.FormatCount(f.limit, "session"))
	}
	if s.Damaged > 0 {
		fmt.Fprintf(env.Err, "%s with damaged outcomes; hint: run agenthost db check\n", command.FormatCount(int(s.Damaged), "row"))
	}
	if f.json {
		return env.PrintJSON(s)
	}
	return command.FailWith(printRows(env, req.By, s))
}

// keyColumns returns the columns for keys.
func keyColumns(by []string) (columns []terminal.Column) {
	for _, name := range by {
		columns = append(columns, terminal.Column{Title: strings.ToUpper(name), Whole: name == "revision" || name == "user"})
	}
	return columns
}

// keyTexts returns a row's keys. A hyphen is an unknown one.
func keyTexts(by []string, r *outcomes.Row) (texts []string) {
	for _, name := range by {
		text := map[string]string{"agent": r.Agent, "revision": r.Revision, "user": r.User, "day": r.Day, "protocol": r.Protocol}[name]
		if text == "" {
			text = "-"
		}
		texts = append(texts, text)
	}
	return texts
}

func rightColumns(titles ...string) (columns []terminal.Column) {
	for _, title := range titles {
		columns = append(columns, terminal.Column{Title: title, Right: true})
	}
	return columns
}

func printOutcomes(env command.Env, by []string, s *outcomes.Summary) error {
	counts := []string{"SESSIONS", "TURNS", "FAILED", "95 %", "SECONDS", "TOOL ERRORS", "APPROVED", "SCORE", "EVALS"}
	table := terminal.NewTable(append(append(keyColumns(by), rightColumns(counts...)...), terminal.Column{Title: "MOST FAILURES"})...)
	for _, r := range s.Rows {
		failed, interval, most, evals := "", "", "", ""
		if r.EvalCases > 0 {
			evals = fmt.Sprintf("%d of %d", r.EvalPassed, r.EvalCases)
		}
		if r.Turns > 0 {
			failed = fmt.Sprintf("%.1f %%", 100*r.FailedRate)
			interval = fmt.Sprintf("%.1f..%.1f", 100*r.FailedInterval.Low, 100*r.FailedInterval.High)
		}
		if len(r.Failures) > 0 {
			most = fmt.Sprintf("%s (%d)", r.Failures[0].Code, r.Failures[0].Turns)
		}
		table.AddRow(append(keyTexts(by, r), formatCount(r.Sessions), formatCount(r.Turns), failed, interval, formatMean(r.Seconds, r.SecondsInterval, r.Turns > 0),
			fmt.Sprintf("%d of %d", r.ToolErrors, r.ToolCalls), fmt.Sprintf("%d of %d", r.Approved, r.Asked), formatMean(r.Score, r.ScoreInterval, r.Scores > 0), evals, most)...)
	}
	return table.Print(env.Out)
}

func printCost(env command.Env, by []string, s *outcomes.Summary) error {
	counts := []string{"TURNS", "MODEL CALLS", "INPUT", "CACHED", "OUTPUT", "USD", "PRICED"}
	if slices.Contains(by, "agent") {
		counts = counts[1:] // a turn belongs to no agent
	}
	table := terminal.NewTable(append(keyColumns(by), rightColumns(counts...)...)...)
	for _, r := range s.Rows {
		priced := ""
		if r.Calls > 0 {
			priced = fmt.Sprintf("%d %%", 100*r.Priced/r.Calls)
		}
		texts := []string{formatCount(r.Turns), formatCount(r.Calls), formatCount(r.Input), formatCount(r.Cached), formatCount(r.Output), fmt.Sprintf("%.6f", r.USD), priced}
		table.AddRow(append(keyTexts(by, r), texts[len(texts)-len(counts):]...)...)
	}
	return table.Print(env.Out)
}

func formatCount(n int64) string { return strconv.FormatInt(n, 10) }

// formatMean formats a mean with half of its interval.
func formatMean(mean float64, i *statistics.Interval, known bool) string {
	switch {
	case !known:
		return ""
	case i == nil:
		return fmt.Sprintf("%.2f", mean)
	}
	return fmt.Sprintf("%.2f ± %.2f", mean, (i.High-i.Low)/2)
}
