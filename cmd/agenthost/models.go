package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/genai"

	"agenthost/internal/command"
	"agenthost/internal/terminal"
	"agenthost/pkg/loader"
	"agenthost/pkg/model"
	"agenthost/pkg/spec"
)

// pingTimeout limits one --ping call.
const pingTimeout = 30 * time.Second

// modelsFlags are the flags for models.
type modelsFlags struct {
	load       command.LoadFlags
	ping, json bool
}

func newModelsCommand(env command.Env) *cobra.Command {
	var f modelsFlags
	cmd := &cobra.Command{
		Use:   "models DIR...",
		Short: "List the apps' models and their keys",
		Long: `Models lists the models that apps use: by which agents, or as the route or fallback of
which model, the provider, the address, and where the key comes from, or which variable
to set. Keys are never printed. DIR is an app or a folder of apps.

With --ping, models calls each model once with a short message, and exits with
status 1 when one fails. Waits for retries are printed to stderr. Models without an
address, such as scripts, are not called.`,
		Args:    command.RequireArgs(1, -1),
		PreRunE: command.ApplyEnvironment,
		RunE: func(cmd *cobra.Command, dirs []string) error {
			return f.listModels(cmd.Context(), env, dirs)
		},
	}
	f.load.RegisterFlags(env, cmd.Flags())
	cmd.Flags().BoolVar(&f.ping, "ping", false, "call each model once")
	command.RegisterOutput(cmd.Flags(), &f.json, false)
	return cmd
}

// A listedModel is one of an app's models in the output.
type listedModel struct {
	App        string     `json:"app"`
	Name       string     `json:"name"`
	Agents     []string   `json:"agents"`
	Summaries  bool       `json:"summaries,omitempty"`
	RouteOf    []string   `json:"routeOf,omitempty"`
	FallbackOf []string   `json:"fallbackOf,omitempty"`
	Provider   string     `json:"provider"`
	Model      string     `json:"model"`
	URL        string     `json:"url,omitempty"`
	Key        listedKey  `json:"key"`
	Fallbacks  []string   `json:"fallbacks,omitempty"`
	Routes     []string   `json:"routes,omitempty"`
	Ping       *pingReply `json:"ping,omitempty"`
}

// A listedKey is a key's state: present, missing or none.
type listedKey struct {
	State    string `json:"state"`
	From     string `json:"from,omitempty"`
	Variable string `json:"variable,omitempty"`
	Hint     string `json:"hint,omitempty"`
}

// A pingReply is a call's result.
type pingReply struct {
	OK           bool   `json:"ok"`
	Milliseconds int64  `json:"milliseconds"`
	Error        string `json:"error,omitempty"`
}

func (f *modelsFlags) listModels(ctx context.Context, env command.Env, dirs []string) error {
	apps, err := command.DiscoverApps(dirs)
	if err != nil {
		return err
	}
	opts, err := f.load.LoaderOptions(nil, apps...)
	if err != nil {
		return err
	}
	l := newLoader(opts)
	all := []listedModel{}
	var problems spec.Diagnostics
	for _, app := range apps {
		ds := l.VisitModels(ctx, app, func(use loader.ModelUse) {
			all = append(all, f.describeUse(ctx, env, loader.AppName(app), use))
		})
		for _, d := range ds {
			if d.Severity == spec.Error {
				problems = append(problems, d)
			}
		}
	}
	if err := env.WriteDiagnostics(problems); err != nil {
		return err
	}
	if f.json {
		err = json.NewEncoder(env.Out).Encode(all)
	} else {
		err = writeModels(env, all, len(apps) > 1)
	}
	if err != nil {
		return command.FailWith(err)
	}
	for _, m := range all {
		if m.Ping != nil && !m.Ping.OK {
			return &command.ExitError{Code: command.ExitProblems}
		}
	}
	if problems.HasErrors() {
		return &command.ExitError{Code: command.ExitProblems}
	}
	return nil
}

func (f *modelsFlags) describeUse(ctx context.Context, env command.Env, app string, use loader.ModelUse) listedModel {
	m := listedModel{
		App: app, Name: use.Name, Agents: append([]string{}, use.Agents...), Provider: use.Provider, Model: use.Model, URL: use.URL,
		Summaries: use.Summaries, RouteOf: use.RouteOf, FallbackOf: use.FallbackOf, Fallbacks: use.Fallbacks, Routes: use.Routes, Key: listedKey{State: "none"},
	}
	switch c := use.Credential; {
	case c.Missing != "":
		m.Key = listedKey{State: "missing", Variable: c.Variable, Hint: c.Missing}
	case c.From != "":
		m.Key = listedKey{State: "present", From: c.From}
	}
	if f.ping && use.URL != "" || f.ping && use.Credential.Missing != "" {
		m.Ping = pingModel(ctx, env, use.LLM)
	}
	return m
}

// pingModel calls a model once, and prints what the call waits for. A truncated response
// counts as a success.
func pingModel(ctx context.Context, env command.Env, llm model.LLM) *pingReply {
	ctx, cancel := context.WithTimeout(ctx, pingTimeout)
	defer cancel()
	req := &model.Request{
		Contents: []*genai.Content{model.UserText("Reply with the word ok.")},
		Config:   &genai.GenerateContentConfig{MaxOutputTokens: 16},
		OnWait:   func(w model.Wait) { fmt.Fprintln(env.Err, w) },
	}
	start := time.Now()
	var err error
	for _, failed := range llm.Generate(ctx, req) {
		err = failed
	}
	reply := &pingReply{OK: err == nil, Milliseconds: time.Since(start).Milliseconds()}
	if err == nil {
		return reply
	}
	reply.Error = err.Error()
	if errors.Is(err, context.DeadlineExceeded) {
		reply.Error = fmt.Sprintf("no response within %s", pingTimeout)
	}
	return reply
}

func writeModels(env command.Env, all []listedModel, several bool) error {
	if len(all) == 0 {
		_, err := fmt.Fprintln(env.Err, "no models")
		return err
	}
	columns := []terminal.Column{{Title: "APP"}, {Title: "MODEL"}, {Title: "USED BY"}, {Title: "PROVIDER"}, {Title: "NAME"}, {Title: "ADDRESS"}, {Title: "KEY"}, {Title: "FALLBACKS, ROUTES"}}
	first := 0
	if !several {
		first = 1 // the app is known
	}
	table := terminal.NewTable(columns[first:]...)
	for _, m := range all {
		key := terminal.Cell{Text: m.Key.formatKey()}
		if m.Key.State == "missing" {
			key.Role = terminal.Warning
		}
		cells := []terminal.Cell{
			{Text: m.App},
			{Text: m.Name},
			{Text: m.formatUsers()},
			{Text: m.Provider},
			{Text: m.Model},
			{Text: dashIfEmpty(m.URL)},
			key,
			{Text: dashIfEmpty(strings.Join(append(m.Fallbacks, m.Routes...), ", "))},
		}
		table.AddCells(cells[first:]...)
	}
	if err := table.Print(env.Out); err != nil {
		return err
	}
	for _, m := range all {
		if m.Ping != nil {
			fmt.Fprintln(env.Out, m.formatPing(several))
		}
	}
	return nil
}

// formatUsers lists why the app uses the model: its agents, its summaries, and the models
// that call it.
func (m *listedModel) formatUsers() string {
	users := slices.Clone(m.Agents)
	if m.Summaries {
		users = append(users, "summaries")
	}
	if len(m.RouteOf) > 0 {
		users = append(users, "route of "+strings.Join(m.RouteOf, ", "))
	}
	if len(m.FallbackOf) > 0 {
		users = append(users, "fallback of "+strings.Join(m.FallbackOf, ", "))
	}
	return strings.Join(users, ", ")
}

func dashIfEmpty(text string) string { return cmp.Or(text, "-") }

func (k listedKey) formatKey() string {
	switch k.State {
	case "present":
		return k.From
	case "missing":
		if k.Variable == "" {
			return "missing: set api_key"
		}
		return "missing: set " + k.Variable
	}
	return "not needed"
}

func (m *listedModel) formatPing(several bool) string {
	name := m.Name
	if several {
		name = m.App + ": " + name
	}
	if m.Ping.OK {
		return fmt.Sprintf("%s: ok in %d ms", name, m.Ping.Milliseconds)
	}
	return fmt.Sprintf("%s: failed: %s", name, m.Ping.Error)
}
